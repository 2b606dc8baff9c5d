"""Oriented boxes, judged by torchvision's kernels, OpenCV's rectangles and the pixels of the moved object."""

import warnings

import cv2
import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as tv

import gpu_aug
from gpu_aug import (
    BoxParams,
    CenterCrop,
    ClampBoundingBoxes,
    ElasticTransform,
    GridDistortion,
    HorizontalFlip,
    Mosaic,
    RandomAffine,
    RandomCrop,
    RandomErasing,
    RandomGridShuffle,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    Recipe,
    RecipeError,
    Resize,
    SanitizeBoundingBoxes,
    Targets,
    TargetsError,
    Transpose,
    VerticalFlip,
    move_batch,
)
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import oriented, polygons
from gpu_aug.targets.box_formats import in_format, to_corners
from gpu_aug.targets.oriented import from_corners, rectangles
from tests.support.extent import trials

SIZE = (150, 200)
ROTATED = ("cxcywhr", "xywhr", "xyxyxyxy")
KEEP_ALL = {"check_each": False, "keep_empty": True}
DEFORMED = "ignore:.* makes oriented boxes no rectangles:UserWarning"


def drawn_boxes(num: int, seed: int = 0) -> np.ndarray:
    """Boxes (cx, cy, w, h, angle) inside an image of SIZE, but for some corners."""
    rng = np.random.default_rng(seed)
    low, high = (50, 45, 25, 15, -180), (150, 105, 70, 40, 180)
    return rng.uniform(low, high, (num, 5))


def moved(
    operations: list, boxes: object, form: str = "cxcywhr", size: tuple = SIZE, **params: object
) -> np.ndarray:
    """The boxes of one image after a recipe."""
    recipe = Recipe(operations, boxes=BoxParams(form, **params))
    draws = recipe.draw(0, 0, np.arange(1), np.array([size]))
    boxes = move_batch(recipe, draws, [Targets(boxes=boxes)])[0].boxes
    assert boxes is not None
    return boxes


def corners(boxes: np.ndarray, form: str = "cxcywhr") -> np.ndarray:
    return to_corners(boxes, BoxParams(form), SIZE)


def assert_same(own: np.ndarray, theirs: np.ndarray) -> None:
    """Numbers agree to 1e-6, and angles modulo 360."""
    difference = own - theirs
    if own.shape[1] == 5:
        difference[:, 4] = (difference[:, 4] + 180) % 360 - 180
    np.testing.assert_allclose(difference, 0, atol=1e-6)


KERNELS = {
    "nothing": (HorizontalFlip(0), lambda boxes: boxes),
    "horizontal flip": (HorizontalFlip(1), tv.horizontal_flip),
    "vertical flip": (VerticalFlip(1), tv.vertical_flip),
    "rotation": (RandomRotation((30, 30)), lambda boxes: tv.rotate(boxes, 30)),
    "resize": (Resize((300, 400)), lambda boxes: tv.resize(boxes, [300, 400])),
    "resize, to another shape": (Resize((150, 300)), lambda boxes: tv.resize(boxes, [150, 300])),
    "crop": (CenterCrop((140, 190)), lambda boxes: tv.center_crop(boxes, [140, 190])),
}


@pytest.mark.filterwarnings(DEFORMED)
@pytest.mark.parametrize("form", ROTATED)
@pytest.mark.parametrize("name", KERNELS)
def test_boxes_are_those_of_torchvisions_kernels(name, form):
    """Corners, their order and angles are torchvision's, in each of its rotated formats; a mirror keeps the first side."""
    operation, kernel = KERNELS[name]
    given = tv.convert_bounding_box_format(
        torch.from_numpy(drawn_boxes(100)),
        old_format=tv_tensors.BoundingBoxFormat.CXCYWHR,
        new_format=tv_tensors.BoundingBoxFormat[form.upper()],
    )
    theirs = tv_tensors.BoundingBoxes(
        given.clone(), format=form.upper(), canvas_size=SIZE, clamping_mode=None
    )

    own = moved([operation], given.numpy(), form, **KEEP_ALL)

    assert_same(own, kernel(theirs).as_subclass(torch.Tensor).numpy())


OPERATIONS = {
    "flips": [HorizontalFlip(0.5), VerticalFlip(0.5), Transpose(0.5)],
    "rotation": [RandomRotation(180, expand=True)],
    "affine": [RandomAffine(180, (0.2, 0.2), (0.6, 1.6), (-25, 25, -25, 25))],
    "perspective": [RandomPerspective(0.6, p=1)],
    "resized crop": [RandomResizedCrop((140, 120), scale=(0.1, 1))],
    "resize": [Resize((110, 260))],
    "several": [
        RandomAffine(40, (0.1, 0.1), (0.8, 1.3), (-10, 10, -10, 10)),
        RandomCrop((120, 150)),
        HorizontalFlip(0.5),
        RandomPerspective(0.3, p=1),
    ],
}
NUM = trials(60)


def projected(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points moved by a matrix; NaN behind the horizon."""
    x, y, w = np.c_[points, np.ones(len(points))].dot(matrix.T).T
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(w[:, None] > 0, np.stack([x / w, y / w], axis=1), np.nan)


def within(points: np.ndarray, size: np.ndarray) -> np.ndarray:
    return ((points >= -1e-6) & (points <= size[::-1] + 1e-6)).all(axis=1)


def outline(polygon: np.ndarray) -> np.ndarray:
    """Points on the border of a polygon [4, 2], 800 on each side."""
    share = np.arange(800)[:, None, None] / 800
    return (polygon + share * (np.roll(polygon, -1, axis=0) - polygon)).reshape(-1, 2)


def seen_outline(recipe: Recipe, draws: object, row: int, box: np.ndarray) -> np.ndarray:
    """Points on the border of what the result shows of an object, [n, 2].

    They come from the object's border and from those of the images between, and count if every image on their way shows them.
    """
    sizes, matrices = [draws.sizes[row]], []
    for leaf, params in zip(recipe.leaves, draws.decode_params + draws.params, strict=True):
        own = {name: value[row : row + 1] for name, value in params.items()}
        matrices.append(leaf.forward(own, sizes[-1][None])[0] if own["apply"][0] else np.eye(3))
        sizes.append(leaf.result_size(own, sizes[-1][None])[0])
    [object_corners] = corners(box[None])
    frames = [np.array([[0, 0], [w, 0], [w, h], [0, h]], float) for h, w in sizes]
    found = []
    for stage, start in [(0, object_corners), *enumerate(frames)]:
        back = forth = outline(start)
        shown = within(back, sizes[stage])
        for matrix, size in zip(matrices[:stage][::-1], sizes[:stage][::-1], strict=True):
            back = projected(np.linalg.inv(matrix), back)
            shown &= within(back, size)
        shown &= on_box(back, box)
        for matrix, size in zip(matrices[stage:], sizes[stage + 1 :], strict=True):
            forth = projected(matrix, forth)
            shown &= within(forth, size)
        found.append(forth[shown])
    return np.concatenate(found)


def on_box(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    along, down = axes(box[4])
    distances = np.stack([(points - box[:2]) @ along, (points - box[:2]) @ down], axis=1)
    return (np.abs(distances) <= box[2:4] / 2 + 1e-6).all(axis=1)


def axes(angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors along the width and the height of a box."""
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    return np.array([cos, -sin]), np.array([sin, cos])


@pytest.mark.filterwarnings(DEFORMED)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_moved_box_touches_the_moved_object_on_all_sides(name):
    """Each side is within a pixel of the object, and the area within 2 % of OpenCV's rectangle; the box around it is not."""
    recipe = Recipe(OPERATIONS[name], boxes=BoxParams("cxcywhr"))
    boxes, draws = drawn_boxes(NUM), recipe.draw(0, 0, np.arange(NUM), np.array([SIZE] * NUM))

    results = move_batch(recipe, draws, [Targets(boxes=[box]) for box in boxes])

    upright = []
    for row, result in enumerate(results):
        points = seen_outline(recipe, draws, row, boxes[row])
        assert len(result.boxes) == (len(points) > 0)
        if len(points) == 0 or result.boxes[0, 2:4].min() < 4:
            continue
        for axis, length in zip(axes(result.boxes[0, 4]), result.boxes[0, 2:4], strict=True):
            distance = (points - result.boxes[0, :2]) @ axis
            assert abs(distance.min() + length / 2) <= 1
            assert abs(distance.max() - length / 2) <= 1
        least = np.prod(cv2.minAreaRect(cv2.convexHull(points.astype(np.float32)))[1])
        assert result.boxes[0, 2:4].prod() <= 1.02 * least
        upright.append(np.ptp(points, axis=0).prod() / least)
    assert len(upright) >= NUM // 2
    assert np.median(upright) > 1.1


@pytest.mark.filterwarnings(DEFORMED)
@pytest.mark.parametrize("alpha", [20.0, 300.0])
def test_pixels_of_a_box_are_found_near_it_alone(monkeypatch, alpha):
    """As by a search of all pixels, whether the field is smooth or folds; a search of half the image differs."""
    size = (90, 120)
    recipe = Recipe([RandomRotation(30), ElasticTransform(alpha, 4.0)], boxes=BoxParams("cxcywhr"))
    num = trials(4)
    draws = recipe.draw(0, 0, np.arange(num), np.array([size] * num))
    targets = [Targets(boxes=drawn_boxes(5, seed) * (0.5, 0.5, 0.8, 0.8, 1)) for seed in range(num)]
    own = [one.boxes for one in move_batch(recipe, draws, targets)]

    def search(rows: slice) -> list:
        def pixels_in(self, polygon):
            sources, places = (one[:, rows].reshape(2, -1).T for one in (self.sources, self.places))
            return places[polygons.contains(polygon, sources)]

        monkeypatch.setattr(oriented._SourceLookup, "pixels_in", pixels_in)
        return [one.boxes for one in move_batch(recipe, draws, targets)]

    for box, other in zip(own, search(slice(None)), strict=True):
        np.testing.assert_array_equal(box, other)
    assert any(
        box.shape != other.shape or not np.allclose(box, other)
        for box, other in zip(own, search(slice(45)), strict=True)
    )


@pytest.mark.parametrize("form", ["xyxy", *ROTATED])
def test_a_box_without_area_has_none_along_a_field(form):
    """A box that a crop has emptied shows none of the pixels of the distortion behind it."""
    at = to_corners(np.array([[5.0, 5, 6, 6, 0]]), BoxParams("cxcywhr"), SIZE)
    box = {"xyxy": [[2, 2, 8, 8]], "xyxyxyxy": at.reshape(1, 8)}.get(form, [[5, 5, 6, 6, 0]])
    operations = [CenterCrop((40, 50)), ElasticTransform(60.0, 6.0), GridDistortion(p=1)]

    (result,) = moved(operations, box, form, keep_empty=True)

    corner = to_corners(result[None], BoxParams(form), (40, 50))[0]
    assert np.ptp(corner, axis=0).max() < 1e-6


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_corners_have_no_negative_zero(angle):
    """Boxes at right angles that a crop cuts at its top left corner, in any heading."""
    box = to_corners(np.array([[62.5, 60, 40, 40, angle]]), BoxParams("cxcywhr"), SIZE).round()

    result = moved([CenterCrop((30, 75))], box.reshape(1, 8), "xyxyxyxy")

    assert (result == 0).any()
    assert not np.signbit(result[result == 0]).any()


@pytest.mark.filterwarnings(DEFORMED)
@pytest.mark.parametrize("operation", [ElasticTransform(60.0, 6.0), GridDistortion(p=1)])
def test_a_box_follows_a_field_of_displacements(operation):
    """The rectangle's sides are within a pixel of the mask that nearest pixels show of the box."""
    recipe = Recipe([operation], boxes=BoxParams("cxcywhr"))
    num = trials(6)
    boxes, draws = drawn_boxes(num), recipe.draw(0, 0, np.arange(num), np.array([SIZE] * num))
    masks = [
        cv2.fillConvexPoly(np.zeros(SIZE, np.uint8), np.rint(one - 0.5).astype(np.int32), 1)
        for one in corners(boxes)
    ]

    results = move_batch(
        recipe,
        draws,
        [Targets(boxes=[box], masks=mask[None]) for box, mask in zip(boxes, masks, strict=True)],
    )

    for result in results:
        y, x = np.nonzero(result.masks[0])
        for axis, length in zip(axes(result.boxes[0, 4]), result.boxes[0, 2:4], strict=True):
            distance = (np.stack([x, y], 1) + 0.5 - result.boxes[0, :2]) @ axis
            # Half a pixel to the border of a pixel, one of the mask's rounded corners, and one.
            assert abs(distance.min() + length / 2) <= 2.2
            assert abs(distance.max() - length / 2) <= 2.2


@pytest.mark.parametrize("area", [0.0, 500.0])
def test_boxes_are_clipped_as_polygons(area):
    """What the image shows, its area and the rectangle around it are those of OpenCV, for boxes that reach out of the image."""
    boxes = np.random.default_rng(3).uniform((0, 0, 5, 5, -180), (200, 150, 120, 80, 180), (400, 5))
    frame = np.array([[0, 0], [200, 0], [200, 150], [0, 150]], np.float32)
    seen = [cv2.intersectConvexConvex(one.astype(np.float32), frame) for one in corners(boxes)]

    own, kept = box_math.keep(
        from_corners(corners(boxes)), BoxParams("cxcywhr", min_area=area), SIZE
    )

    areas = np.array([size for size, _ in seen])
    np.testing.assert_allclose(box_math.areas(own), areas, atol=0.01)
    assert kept.tolist() == (areas >= max(area, 1e-7)).tolist()
    least = [np.prod(cv2.minAreaRect(points)[1]) for _, points in seen]
    np.testing.assert_allclose(box_math.sides(own).prod(axis=1), least, rtol=1e-3)
    np.testing.assert_allclose(
        box_math.around(own),
        [[*p.reshape(-1, 2).min(0), *p.reshape(-1, 2).max(0)] for _, p in seen],
        atol=0.01,
    )


def test_several_steps_add_nothing():
    """A rotation in two steps gives the box of one; the axis-aligned box grows with each step."""
    boxes = [[100.0, 75, 60, 20, 10]]
    steps = [RandomRotation((20, 20)), RandomRotation((25, 25))]

    assert_same(moved(steps, boxes), moved([RandomRotation((45, 45))], boxes))
    upright = [[70.0, 65, 130, 85]]
    twice, once = (moved(one, upright, "xyxy") for one in (steps, [RandomRotation((45, 45))]))
    assert box_math.areas(twice)[0] > 1.2 * box_math.areas(once)[0]


def test_the_first_side_survives_a_cut():
    """A ship that is cut at the border keeps the direction of its bow, also where the rest of it is wider than long."""
    [[_, _, width, height, angle]] = moved([CenterCrop((150, 40))], [[100, 75, 90, 50, 180]])

    assert (width, height) == pytest.approx((40, 50))
    assert abs(angle) == pytest.approx(180)


@pytest.mark.parametrize(
    ("operation", "warns"),
    [
        (RandomAffine(0, shear=(20, 20)), True),
        (RandomPerspective(0.5, p=1), True),
        (Resize((150, 400)), True),
        (ElasticTransform(200.0, 5.0), True),
        (Resize((300, 400)), False),
        (RandomRotation(180), False),
        (RandomCrop((60, 60)), False),
    ],
    ids=repr,
)
def test_a_warning_names_what_makes_boxes_other_shapes(operation, warns):
    """Operations that keep rectangles are silent, and so are those that cut them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        moved([operation], drawn_boxes(4))

    said = [str(one.message) for one in caught]
    assert (
        any(f"{type(operation).__name__} makes oriented boxes no rectangles" in one for one in said)
        == warns
    )


def test_boxes_at_right_angles_stay_rectangles_in_any_scale():
    """An axis-aligned box in an oriented recipe is exact, and a scale in one direction keeps it a rectangle."""
    boxes = in_format(np.array([[10.0, 20, 50, 60]]), "xyxy", BoxParams("cxcywhr"), SIZE)

    assert boxes.tolist() == [[30, 40, 40, 40, 0]]
    assert moved([Resize((150, 400))], boxes).tolist() == [[60, 40, 80, 40, 0]]


@pytest.mark.parametrize(
    ("form", "other"), [("cxcywhr", "xyxyxyxy"), ("xywhr", "cxcywhr"), ("xyxyxyxy", "xywhr")]
)
def test_formats_are_converted_as_torchvision_converts_them(form, other):
    """Readers' corners and torchvision's tensors come in any format."""
    names = tv_tensors.BoundingBoxFormat
    given = tv.convert_bounding_box_format(
        torch.from_numpy(drawn_boxes(50)), old_format=names.CXCYWHR, new_format=names[form.upper()]
    )

    own = in_format(given.numpy(), form, BoxParams(other), SIZE)

    theirs = tv.convert_bounding_box_format(
        given, old_format=names[form.upper()], new_format=names[other.upper()]
    )
    assert_same(own, theirs.numpy())


def test_normalized_corners_are_shares():
    """Corners of shares come back as shares of the new image."""
    pixels = corners(drawn_boxes(5)).reshape(-1, 8)
    scale = np.array([200, 150] * 4)

    own = moved([HorizontalFlip(1)], pixels / scale, "xyxyxyxy", normalized=True)

    assert_same(own * scale, moved([HorizontalFlip(1)], pixels, "xyxyxyxy"))


def test_oriented_data_in_an_upright_recipe_says_so():
    """The box around the part in the image is given, with a warning that names the format that keeps angles."""
    data = corners(np.array([[20.0, 75, 60, 30, 90]])).reshape(-1, 8)
    data[:, ::2] -= 10  # reaches out by 5

    with pytest.warns(UserWarning, match=r'BoxParams\("cxcywhr"\) keeps their angles'):
        upright = in_format(data, "xyxyxyxy", None, SIZE)

    np.testing.assert_allclose(upright, [[0, 45, 25, 105]], atol=1e-9)


def test_corners_from_files_are_put_in_order():
    """Counter-clockwise corners keep their first one; crossed ones are the hull, with a warning; whole numbers are silent."""
    [given] = corners(np.array([[100.3, 75.4, 60, 30, 20]]))

    turned = moved([HorizontalFlip(0)], given[[0, 3, 2, 1]].reshape(1, 8), "xyxyxyxy")
    rounded = moved([HorizontalFlip(0)], np.rint(given).reshape(1, 8), "xyxyxyxy")
    with pytest.warns(UserWarning, match="are not those of a rectangle"):
        crossed = moved([HorizontalFlip(0)], given[[0, 2, 1, 3]].reshape(1, 8), "xyxyxyxy")

    np.testing.assert_allclose(turned.reshape(4, 2), given)
    np.testing.assert_allclose(rounded.reshape(4, 2), given, atol=1)
    hull = cv2.minAreaRect(cv2.convexHull(given.astype(np.float32)))[1]
    assert box_math.sides(from_corners(crossed.reshape(1, 4, 2))).prod() == pytest.approx(
        np.prod(hull), rel=1e-4
    )


@pytest.mark.parametrize(
    ("params", "boxes", "match"),
    [
        (
            {},
            [[10, 20, 30, 40]],
            r"must have 5 numbers .* got 4: give the recipe BoxParams\('xyxy'\)",
        ),
        (
            {"format": "xyxy"},
            [[1, 2, 3, 4, 5]],
            r"must have 4 numbers .* got 5: give the recipe BoxParams\('cxcywhr'\)",
        ),
        ({"format": "xyxy"}, [[1] * 8], r"got 8: give the recipe BoxParams\('xyxyxyxy'\)"),
        (
            {},
            [[-10, 20, 30, 40, 5]],
            "the centres of oriented boxes must lie in the image, 150x200",
        ),
        ({}, [[10, 20, -30, 40, 5]], "boxes must have an area in the image"),
        ({"clip": True}, [[-100, 20, 30, 40, 5]], "boxes must have an area in the image"),
    ],
)
def test_boxes_that_do_not_fit_are_named(params, boxes, match):
    """The error says what was given and what to do."""
    with pytest.raises(TargetsError, match=f"sample 0: .*{match}"):
        moved([HorizontalFlip(0)], boxes, **{"form": params.pop("format", "cxcywhr"), **params})


def test_shares_of_rotated_sides_are_refused():
    """A side along no axis is no share of the width or the height."""
    with pytest.raises(RecipeError, match=r"must be in pixels, got normalized=True.*'xyxyxyxy'"):
        BoxParams("cxcywhr", normalized=True)


def test_corners_outside_are_no_error():
    """A rectangle at the border keeps a corner outside, for all its sides are seen; a side that is not seen is cut."""
    corner, side = np.array([[25.0, 75, 60, 20, 30]]), np.array([[10.0, 75, 40, 20, 0]])

    assert corners(corner).min() < -5
    assert_same(moved([HorizontalFlip(0)], corner), corner)
    assert_same(moved([HorizontalFlip(0)], side), np.array([[15.0, 75, 30, 20, 0]]))


@pytest.mark.parametrize(
    ("operation", "params", "kept"),
    [
        (RandomCrop((150, 200)), {"min_width": 50}, [0]),
        (RandomCrop((150, 200)), {"min_height": 25}, [1]),
        (RandomCrop((150, 200)), {"max_accept_ratio": 2}, [1]),
        (CenterCrop((150, 60)), {"min_visibility": 0.7}, [1]),
        (SanitizeBoundingBoxes(25), {}, [1]),
        (CenterCrop((150, 60)), {"min_area": 900}, [0, 1]),
        (CenterCrop((150, 60)), {"min_area": 1100}, [0]),
    ],
)
def test_filters_count_sides_and_visible_areas(operation, params, kept):
    """Sides are those of the rectangle, areas those of the part that is seen."""
    boxes = [[100, 75, 100, 20, 0], [100, 75, 30, 30, 45]]
    recipe = Recipe([operation], boxes=BoxParams("cxcywhr", **params))
    draws = recipe.draw(0, 0, np.arange(1), np.array([SIZE]))

    [result] = move_batch(recipe, draws, [Targets(boxes, [0, 1])])

    assert result.box_labels.tolist() == kept


def test_sanitizing_and_clamping_look_at_what_is_seen():
    """A box that reaches outside is dropped, and stays if it was clamped before."""
    box, checks = [[10.0, 75, 40, 20, 30]], {"check_each": False}

    assert len(moved([SanitizeBoundingBoxes()], box, **checks)) == 0
    assert len(moved([ClampBoundingBoxes(), SanitizeBoundingBoxes()], box, **checks)) == 1


def test_holes_shrink_boxes_to_what_is_seen():
    """A hole over the end of a rotated box cuts it off; boxes stay as they are without shrink_in_holes."""
    boxes = np.array([[100.0, 75, 90, 30, 45]])
    hidden = np.zeros(SIZE, bool)
    hidden[:, 110:] = True

    shrunk, kept = box_math.shrink_in_holes(
        from_corners(corners(boxes)), hidden, BoxParams("cxcywhr")
    )

    y, x = np.nonzero(
        cv2.fillConvexPoly(
            np.zeros(SIZE, np.uint8), np.rint(corners(boxes)[0] - 0.5).astype(np.int32), 1
        )
        & ~hidden
    )
    least = cv2.minAreaRect(np.stack([x, y], 1).astype(np.float32))[1]
    assert kept.tolist() == [True]
    np.testing.assert_allclose(
        sorted(box_math.sides(shrunk)[0]), sorted(np.array(least) + 1), atol=1
    )
    unchanged = moved([RandomErasing(1)], boxes)
    assert_same(unchanged, boxes)


def test_mosaic_joins_clipped_boxes():
    """Boxes of four images lie side by side, each inside its own tile; four times one box is the control."""
    recipe = Recipe([Resize(SIZE), Mosaic(p=1)], boxes=BoxParams("cxcywhr", check_each=False))
    boxes = [[[190, 75, 60, 20, angle]] for angle in (0, 30, 60, 90)]  # cut at 200
    draws = recipe.draw(0, 0, np.arange(4), np.array([SIZE] * 4))
    samples = [Targets(one, [number]) for number, one in enumerate(boxes)]

    results = move_batch(recipe, draws, samples)

    angles = {
        (label, round(box[4]))
        for one in results
        for label, box in zip(one.box_labels.tolist(), one.boxes, strict=True)
    }
    assert {label for label, _ in angles} == {0, 1, 2, 3}
    widths = [one.boxes[one.box_labels == 0, 2].max(initial=0) for one in results]
    assert 0 < max(widths) <= 40.001
    assert {(label, 30 * label) for label in range(4)} & angles


def test_tiles_that_change_places_are_refused():
    """RandomGridShuffle tears oriented boxes apart as it does others."""
    with pytest.raises(RecipeError, match="RandomGridShuffle cannot be done with boxes"):
        moved([RandomGridShuffle((2, 2), p=1)], drawn_boxes(1))


@pytest.mark.parametrize("form", ROTATED)
def test_apply_takes_torchvisions_rotated_tensors(form):
    """A BoundingBoxes in the recipe's format is read; another format is an error that names the right parameters."""
    image = np.zeros((*SIZE, 3), np.uint8)
    numbers = in_format(drawn_boxes(2), "cxcywhr", BoxParams(form), SIZE)
    boxes = tv_tensors.BoundingBoxes(numbers, format=form.upper(), canvas_size=SIZE)
    recipe = Recipe([HorizontalFlip(1)], boxes=BoxParams(form))

    [result] = gpu_aug.apply(recipe, [{"image": image, "boxes": boxes}], seed=0)

    assert_same(
        result["boxes"].double().numpy(), moved([HorizontalFlip(1)], boxes, form).astype(np.float32)
    )
    with pytest.raises(TargetsError, match=f"BoxParams\\(format='{form}'\\)"):
        gpu_aug.apply(Recipe([HorizontalFlip(1)]), [{"image": image, "boxes": boxes}], seed=0)


@pytest.mark.parametrize("name", ["XYWHR", "CXCYWHR", "XYXYXYXY"])
def test_pipelines_of_torchvision_on_rotated_boxes_are_imported(name):
    """The format of ConvertBoundingBoxFormat becomes the recipe's."""
    from torchvision.transforms import v2

    pipeline = v2.Compose(
        [v2.RandomHorizontalFlip(1), v2.ConvertBoundingBoxFormat(name), v2.ClampBoundingBoxes()]
    )

    recipe = Recipe.from_torchvision(pipeline)

    assert recipe.boxes.format == name.lower()


def test_recipes_with_oriented_boxes_are_saved(tmp_path):
    """A file and a dictionary give the recipe again."""
    recipe = Recipe([HorizontalFlip()], boxes=BoxParams("cxcywhr", min_area=9))
    recipe.save(tmp_path / "recipe.yaml")

    assert Recipe.load(tmp_path / "recipe.yaml").fingerprint == recipe.fingerprint
    assert Recipe.from_dict(recipe.to_dict()).boxes == recipe.boxes


def test_nothing_is_moved_without_boxes():
    """Images without boxes have the columns of the format."""
    assert moved([RandomPerspective(p=1), CenterCrop(50)], []).shape == (0, 5)
    assert moved([ElasticTransform()], [], "xyxyxyxy").shape == (0, 8)
    assert rectangles(from_corners(np.zeros((0, 4, 2)))).shape == (0, 4, 2)


def test_what_is_behind_the_horizon_is_not_shown():
    """Of a box that crosses the horizon the part before it counts, and a box behind it is empty."""
    matrix = np.array([[1, 0, 0], [0, 1, 0], [0.02, 0, 1]])  # the horizon is at x = -50

    across, behind = (
        box_math.around(box_math.move_boxes(from_corners(np.array([one])), matrix))[0]
        for one in (
            [[-60.0, 0], [10, 0], [10, 10], [-60, 10]],
            [[-80.0, 0], [-60, 0], [-60, 10], [-80, 10]],
        )
    )

    assert across[2] == pytest.approx(10 / 1.2)
    assert across[0] < -1e3
    assert behind.tolist() == [-1] * 4
