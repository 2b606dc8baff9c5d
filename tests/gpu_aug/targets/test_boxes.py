"""Boxes and keypoints: the mathematics, judged by OpenCV's pixels and Albumentations' filters."""

import cv2
import numpy as np
import pytest
from albumentations.core.bbox_utils import (
    convert_bboxes_from_albumentations,
    convert_bboxes_to_albumentations,
    filter_bboxes,
)

from gpu_aug import BoxParams, HorizontalFlip, Recipe
from gpu_aug.targets.boxes import (
    clip,
    from_xyxy,
    keep,
    move_boxes,
    move_boxes_along,
    move_points,
    move_points_along,
    to_xyxy,
)

SIZE = (61, 84)
SHAPE = {"height": SIZE[0], "width": SIZE[1]}
FORMATS = {
    "pascal_voc": BoxParams(),
    "coco": BoxParams(format="xywh"),
    "yolo": BoxParams(format="cxcywh", normalized=True),
    "albumentations": BoxParams(normalized=True),
}


def random_boxes(seed: int, num: int = 30, beyond: float = 0.0) -> np.ndarray:
    """float64 [num, 4] in the image, or as far beside it as ``beyond`` says."""
    rng = np.random.default_rng(seed)
    extent = np.array(SIZE[::-1], float)
    low = rng.uniform(-beyond, extent - 9 + beyond, (num, 2))
    high = low + rng.uniform(8, 40, (num, 2))
    boxes = np.concatenate([low, high], axis=1)
    return boxes if beyond else clip(boxes, SIZE)


def wave(strength: float) -> np.ndarray:
    """A smooth field, float32 [2, *SIZE]."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    dx, dy = np.sin(y / 6 + 1) + 0.5 * np.cos(x / 9), np.cos(x / 7) * np.sin(y / 11)
    return (strength * np.stack([dx, dy])).astype(np.float32)


def filled(box: np.ndarray) -> np.ndarray:
    image = np.zeros(SIZE, np.float32)
    left, top, right, bottom = box.astype(int)
    image[top:bottom, left:right] = 1
    return image


def around(image: np.ndarray) -> np.ndarray:
    """The box around what is brighter than a half."""
    rows, columns = np.nonzero(image > 0.5)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_albumentations(name):
    """Each of its formats comes in and goes out with its numbers."""
    corners = random_boxes(0)
    normalized = corners / [SIZE[1], SIZE[0], SIZE[1], SIZE[0]]
    theirs = normalized
    if name != "albumentations":
        theirs = convert_bboxes_from_albumentations(normalized, name, SHAPE)
        back = convert_bboxes_to_albumentations(theirs, name, SHAPE)
        np.testing.assert_allclose(back, normalized, atol=1e-6)

    np.testing.assert_allclose(to_xyxy(theirs, FORMATS[name], SIZE), corners, atol=1e-9)
    np.testing.assert_allclose(from_xyxy(corners, FORMATS[name], SIZE), theirs, atol=1e-9)
    others = [params for other, params in FORMATS.items() if other != name]
    assert not any(np.allclose(to_xyxy(theirs, one, SIZE), corners) for one in others)


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"min_area": 300.0},
        {"min_visibility": 0.4},
        {"min_width": 20.0, "min_height": 12.0},
        {"max_accept_ratio": 1.7},
        {"min_area": 100.0, "min_visibility": 0.2, "max_accept_ratio": 2.5},
    ],
)
def test_the_same_boxes_are_kept_as_in_albumentations(limits):
    """Area, visibility, sides and ratio drop the boxes that its filter drops."""
    boxes = random_boxes(1, 200, beyond=30)
    normalized = boxes / [SIZE[1], SIZE[0], SIZE[1], SIZE[0]]
    labelled = np.concatenate([normalized, np.arange(200.0)[:, None]], axis=1)
    defaults = {"min_width": 0.0, "min_height": 0.0}
    # Twice, as in Compose: a box wholly outside only goes the second time.
    theirs = filter_bboxes(filter_bboxes(labelled, SHAPE, **defaults | limits), SHAPE, **defaults)

    clipped, kept = keep(boxes, BoxParams(**limits), SIZE)

    assert 0 < kept.sum() < 200
    assert np.flatnonzero(kept).tolist() == theirs[:, 4].astype(int).tolist()
    scale = np.array([SIZE[1], SIZE[0], SIZE[1], SIZE[0]])
    np.testing.assert_allclose(clipped[kept], theirs[:, :4] * scale, atol=1e-9)


def test_boxes_under_a_homography_lie_around_the_warped_rectangle():
    """Corners give the box of OpenCV's pixels to one pixel."""
    corners = np.array([[0, 0], [84, 0], [84, 61], [0, 61]], np.float32)
    target = np.array([[9, 4], [76, 12], [70, 55], [3, 47]], np.float32)
    matrix = cv2.getPerspectiveTransform(corners, target).astype(np.float64)
    to_center = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
    boxes = np.rint(random_boxes(2))

    moved = move_boxes(boxes, matrix)

    for box, result in zip(boxes, moved, strict=True):
        index_matrix = to_center @ matrix @ np.linalg.inv(to_center)
        warped = cv2.warpPerspective(filled(box), index_matrix, SIZE[::-1])
        assert np.abs(result - around(warped)).max() <= 1
    assert np.abs(moved - move_boxes(boxes + 3, matrix)).max() > 2


def test_what_lies_behind_the_horizon_does_not_count():
    """A box that crosses the horizon keeps its part before it, where corners alone would turn it over."""
    matrix = np.array([[1, 0, 0], [0, 1, 0], [0.02, 0, 1]])  # the horizon is at x = -50

    across = move_boxes(np.array([[-60.0, 0, 10, 10]]), matrix)[0]
    behind = move_boxes(np.array([[-80.0, 0, -60, 10]]), matrix)[0]

    assert across[2] == pytest.approx(10 / 1.2)
    assert across[0] < -1e3
    assert not (behind[2:] > behind[:2]).any()
    assert np.isnan(move_points(np.array([[-60.0, 5]]), matrix)).all()


@pytest.mark.parametrize("strength", [1.0, 3.0])
def test_boxes_along_a_field_lie_around_the_remapped_rectangle(strength):
    """Points on the border give the box of OpenCV's pixels to one pixel and a half."""
    field = wave(strength)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]].astype(np.float32)
    boxes = np.rint(random_boxes(3))

    moved = move_boxes_along(boxes, field)

    off = []
    for box, result in zip(boxes, clip(moved, SIZE), strict=True):
        remapped = cv2.remap(filled(box), x + field[0], y + field[1], cv2.INTER_LINEAR)
        off.append(np.abs(result - around(remapped)).max())
    # A pixel counts when half of it is covered, so a thin tip of the true box is not seen.
    assert np.mean(off) < 0.7
    assert np.max(off) <= 1.5
    assert np.abs(moved - boxes).max() > strength


@pytest.mark.parametrize("strength", [0.0, 1.0, 4.0])
def test_a_moved_point_shows_where_it_was(strength):
    """The result at the new place reads the source at the old one, inside the image."""
    field = wave(strength)
    points = np.random.default_rng(4).uniform((6, 6), (78, 55), (200, 2))

    moved = move_points_along(points, field)

    places = (moved - 0.5).astype(np.float32)[:, None]  # one row per point
    read = [cv2.remap(layer, places, None, cv2.INTER_LINEAR)[:, 0] for layer in field]
    np.testing.assert_allclose(moved + np.array(read).T, points, atol=0.1)  # OpenCV 4: 1/32 pixel
    assert strength == 0 or np.abs(moved - points).max() > strength / 2


def test_points_follow_a_field_that_is_torn():
    """Where tiles change places there is no slope to follow, and the nearest pixel is found."""
    field = np.zeros((2, 40, 40), np.float32)
    field[0, :, :20], field[0, :, 20:] = 20, -20
    points = np.array([[5.5, 7.5], [30.5, 2.5]])

    np.testing.assert_allclose(move_points_along(points, field), [[25.5, 7.5], [10.5, 2.5]])


def test_nothing_moves_without_boxes_or_points():
    """No boxes and no points stay none in every function."""
    none, field = np.zeros((0, 4)), wave(1)

    assert move_boxes(none, np.eye(3)).shape == (0, 4)
    assert move_boxes(none, np.diag([1, 1, 2.0])).shape == (0, 4)
    assert move_boxes_along(none, field).shape == (0, 4)
    assert move_points_along(np.zeros((0, 2)), field).shape == (0, 2)
    assert keep(none, BoxParams(min_area=3), SIZE)[1].shape == (0,)


@pytest.mark.parametrize("name", FORMATS)
def test_albumentations_names_are_aliases(name):
    """A name gives the parameters, the recipe and the file of our own words."""
    params, own = BoxParams(name), FORMATS[name]

    assert (params, repr(params)) == (own, repr(own))
    assert BoxParams.from_dict({"format": name, "min_area": 4}) == BoxParams(name, min_area=4)
    first, second = (Recipe([HorizontalFlip()], boxes=one).fingerprint for one in (params, own))
    assert first == second
