"""Boxes and keypoints: the mathematics, judged by OpenCV's pixels and Albumentations' filters."""

import cv2
import numpy as np
import pytest

from gpu_aug import BoxParams, HorizontalFlip, Recipe
from gpu_aug.targets.boxes import (
    keep,
    move_boxes,
    move_boxes_along,
    move_points,
    move_points_along,
)

SIZE = (61, 84)
FORMATS = {
    "pascal_voc": BoxParams(),
    "coco": BoxParams(format="xywh"),
    "yolo": BoxParams(format="cxcywh", normalized=True),
    "albumentations": BoxParams(normalized=True),
}


def wave(strength: float) -> np.ndarray:
    """A smooth field, float32 [2, *SIZE]."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    dx, dy = np.sin(y / 6 + 1) + 0.5 * np.cos(x / 9), np.cos(x / 7) * np.sin(y / 11)
    return (strength * np.stack([dx, dy])).astype(np.float32)


def test_what_lies_behind_the_horizon_does_not_count():
    """A box that crosses the horizon keeps its part before it, where corners alone would turn it over."""
    matrix = np.array([[1, 0, 0], [0, 1, 0], [0.02, 0, 1]])  # the horizon is at x = -50

    across = move_boxes(np.array([[-60.0, 0, 10, 10]]), matrix)[0]
    behind = move_boxes(np.array([[-80.0, 0, -60, 10]]), matrix)[0]

    assert across[2] == pytest.approx(10 / 1.2)
    assert across[0] < -1e3
    assert not (behind[2:] > behind[:2]).any()
    assert np.isnan(move_points(np.array([[-60.0, 5]]), matrix)).all()


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
