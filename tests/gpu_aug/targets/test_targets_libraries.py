"""Boxes, keypoints and masks as Albumentations' Compose and torchvision's tv_tensors move them."""

import albumentations as A
import numpy as np
import pytest
import torch
from albumentations.augmentations.dropout.functional import (
    filter_bboxes_by_holes,
    filter_keypoints_in_holes,
)
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    BoxParams,
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    KeypointParams,
    Operation,
    RandomAffine,
    Recipe,
    RecipeError,
    Resize,
    Targets,
    Transpose,
    VerticalFlip,
    move_batch,
)
from gpu_aug.targets.boxes import in_holes, shrink_in_holes
from tests.gpu_aug.targets.test_boxes import FORMATS

SIZE = (61, 84)
IMAGE = np.zeros((*SIZE, 3), np.uint8)
# What we do, and what Albumentations does, one after the other.
CHAINS: dict[str, tuple[list[Operation], list[A.BasicTransform]]] = {
    "flip": ([HorizontalFlip(1)], [A.HorizontalFlip(p=1)]),
    "flips, transpose": (
        [VerticalFlip(1), HorizontalFlip(1), Transpose(1)],
        [A.VerticalFlip(p=1), A.HorizontalFlip(p=1), A.Transpose(p=1)],
    ),
    "crop": ([CenterCrop((40, 51))], [A.CenterCrop(40, 51)]),
    "two crops": (
        [CenterCrop((60, 50)), HorizontalFlip(1), CenterCrop((40, 30))],
        [A.CenterCrop(60, 50), A.HorizontalFlip(p=1), A.CenterCrop(40, 30)],
    ),
    "crop, resize, flip": (
        [CenterCrop((41, 50)), Resize((100, 80)), HorizontalFlip(1)],
        [A.CenterCrop(41, 50), A.Resize(100, 80), A.HorizontalFlip(p=1)],
    ),
    "colour, resize, crop": (
        [ColorJitter(0.1, 0, 0, 0), Resize((30, 40)), CenterCrop(20)],
        [A.NoOp(), A.Resize(30, 40), A.CenterCrop(20, 20)],
    ),
}
FILTERS = {
    "none": {},
    "area": {"min_area": 200.0},
    "visibility": {"min_visibility": 0.5},
    "sides": {"min_width": 6.0, "min_height": 9.0},
    "ratio": {"max_accept_ratio": 1.5},
}


def corners(seed: int, num: int = 40) -> np.ndarray:
    """Boxes in the image, float64 [num, 4]."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, (70, 50), (num, 2))
    high = np.minimum(low + rng.uniform(4, 40, (num, 2)), SIZE[::-1])
    return np.concatenate([low, high], axis=1)


def moved(recipe: Recipe, targets: Targets) -> Targets:
    draws = recipe.draw(0, 0, np.array([0]), np.array([SIZE]))
    return move_batch(recipe, draws, [targets])[0]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("each", [True, False])
def test_compose_keeps_and_moves_the_same_boxes(chain, filters, each):
    """Coordinates and labels are those of Compose with bbox_params, checked each time or at the end."""
    ours, theirs = CHAINS[chain]
    boxes, labels = corners(0), np.arange(40)
    limits = (
        FILTERS[filters] if each or filters == "none" else {"min_area": 1e-3} | FILTERS[filters]
    )
    params = A.BboxParams("pascal_voc", ["labels"], check_each_transform=each, **limits)
    if filters == "none" and not each:  # a box wholly outside is an error there
        inside = moved(Recipe(ours), Targets(boxes, labels)).box_labels
        boxes, labels = boxes[inside], labels[inside]
    expected = A.Compose(theirs, bbox_params=params)(image=IMAGE, bboxes=boxes, labels=labels)

    own = BoxParams(check_each=each, **FILTERS[filters])
    result = moved(Recipe(ours, boxes=own), Targets(boxes, labels))

    assert len(result.boxes) > 0
    assert result.box_labels.tolist() == expected["labels"].tolist()
    np.testing.assert_allclose(result.boxes, expected["bboxes"], atol=1e-3)


@pytest.mark.parametrize("name", FORMATS)
def test_compose_takes_and_returns_the_same_formats(name):
    """Boxes in any of its formats come out with its numbers, which count on the final size."""
    ours, theirs = CHAINS["crop, resize, flip"]
    scale = np.array([SIZE[1], SIZE[0]] * 2)
    boxes = corners(1)
    if FORMATS[name].format == "xywh":
        boxes[:, 2:] -= boxes[:, :2]
    if FORMATS[name].format == "cxcywh":
        boxes = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)
    boxes = boxes / scale if FORMATS[name].normalized else boxes
    compose = A.Compose(theirs, bbox_params=A.BboxParams(name, label_fields=["labels"]))

    expected = compose(image=IMAGE, bboxes=boxes, labels=np.arange(40))
    result = moved(Recipe(ours, boxes=FORMATS[name]), Targets(boxes, np.arange(40)))

    assert result.box_labels.tolist() == expected["labels"].tolist()
    np.testing.assert_allclose(result.boxes, expected["bboxes"], atol=1e-3)


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize("chain", CHAINS)
def test_compose_moves_the_same_keypoints(chain, remove):
    """With pixel_index, coordinates and what is dropped are those of Compose."""
    ours, theirs = CHAINS[chain]
    points = np.random.default_rng(2).uniform(0, (83.9, 60.9), (60, 2))
    params = A.KeypointParams("xy", label_fields=["labels"], remove_invisible=remove)
    expected = A.Compose(theirs, keypoint_params=params)(
        image=IMAGE, keypoints=points, labels=np.arange(60)
    )

    own = KeypointParams(remove_invisible=remove, pixel_index=True, flip_pairs=())
    result = moved(
        Recipe(ours, keypoints=own), Targets(keypoints=points, keypoint_labels=np.arange(60))
    )

    assert result.keypoint_labels.tolist() == expected["labels"].tolist()
    np.testing.assert_allclose(result.keypoints, expected["keypoints"], atol=1e-3)
    continuous = KeypointParams(flip_pairs=())
    plain = moved(Recipe(ours, keypoints=continuous), Targets(keypoints=points)).keypoints
    if chain == "flip":
        np.testing.assert_allclose(plain - moved(Recipe(ours, keypoints=own), Targets(keypoints=points)).keypoints, np.array([[1, 0]] * 60), atol=1e-9)  # fmt: skip


def test_an_affine_moves_boxes_and_keypoints_as_albumentations_does():
    """The drawn matrix, injected into A.Affine with "largest_box", gives the same boxes and keypoints."""
    recipe = Recipe(
        [RandomAffine((25, 25), scale=(0.8, 0.8), shear=(5, 5))],
        boxes=BoxParams(min_visibility=0.1),
        keypoints=KeypointParams(pixel_index=True, flip_pairs=()),
    )
    draws = recipe.draw(0, 0, np.array([0]), np.array([SIZE]))
    to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    matrix = draws.params[0]["matrix"][0]
    transform = A.Affine(p=1)
    transform.replay_mode = transform.applied_in_replay = True
    transform.params = {
        "shape": (*SIZE, 3),
        "matrix": matrix,
        "bbox_matrix": to_corner @ matrix @ np.linalg.inv(to_corner),
        "output_shape": SIZE,
        "scale": {"x": 0.8, "y": 0.8},
    }
    compose = A.Compose(
        [transform],
        bbox_params=A.BboxParams("pascal_voc", ["labels"], min_visibility=0.1),
        keypoint_params=A.KeypointParams("xy", label_fields=["names"]),
    )
    boxes = corners(3)
    points = np.random.default_rng(4).uniform(0, (83, 60), (30, 2))

    expected = compose(
        image=IMAGE,
        bboxes=boxes,
        labels=np.arange(40),
        keypoints=points,
        names=np.arange(30),
    )
    result = move_batch(recipe, draws, [Targets(boxes, np.arange(40), points, np.arange(30))])[0]

    assert result.box_labels.tolist() == expected["labels"].tolist()
    assert result.keypoint_labels.tolist() == expected["names"].tolist()
    np.testing.assert_allclose(result.boxes, expected["bboxes"], atol=1e-3)
    np.testing.assert_allclose(result.keypoints, expected["keypoints"], atol=1e-3)


@pytest.mark.parametrize("limits", [{}, {"min_area": 60.0}, {"min_visibility": 0.6}])
def test_holes_hide_what_albumentations_hides(limits):
    """Boxes are cut down to what is visible and dropped, and keypoints dropped, as by its dropout."""
    rng = np.random.default_rng(5)
    start = rng.integers(0, (50, 70), (6, 2))
    holes = np.concatenate([start, start + rng.integers(5, 25, (6, 2))], axis=1)
    holes = np.minimum(holes, [*SIZE, *SIZE])
    hidden = np.zeros(SIZE, bool)
    for top, left, bottom, right in holes:
        hidden[top:bottom, left:right] = True
    boxes = np.concatenate([corners(6), np.arange(40.0)[:, None]], axis=1)
    theirs = filter_bboxes_by_holes(
        boxes, holes[:, [1, 0, 3, 2]], SIZE, **{"min_area": 0, "min_visibility": 0} | limits
    )

    shrunk, kept = shrink_in_holes(boxes[:, :4], hidden, BoxParams(**limits))

    assert np.flatnonzero(kept).tolist() == theirs[:, 4].astype(int).tolist()
    assert (shrunk[kept] == theirs[:, :4]).all()
    points = rng.uniform(0, 60, (50, 2))
    seen = filter_keypoints_in_holes(points, holes[:, [1, 0, 3, 2]])
    assert (points[~in_holes(points, holes)] == seen).all()


# What we do, and torchvision's function for boxes and masks.
TORCHVISION = {
    "flip": (HorizontalFlip(1), tv.horizontal_flip),
    "vertical flip": (VerticalFlip(1), tv.vertical_flip),
    "crop": (CenterCrop((40, 51)), lambda x: tv.center_crop(x, [40, 51])),
    "crop with padding": (
        CenterCrop((71, 90)),
        lambda x: tv.center_crop(x, [71, 90]),
    ),  # odd ones are 1 off there
    "resize": (
        Resize((100, 50), mask_interpolation="nearest_floor"),
        lambda x: tv.resize(x, [100, 50]),
    ),
    "affine": (
        RandomAffine((30, 30), scale=(0.75, 0.75)),
        lambda x: tv.affine(x, 30, [0, 0], 0.75, [0.0, 0.0]),
    ),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_moves_boxes_and_masks_the_same_way(name):
    """Its kernels for BoundingBoxes and Mask give the same numbers; masks but for ties."""
    operation, function = TORCHVISION[name]
    boxes = corners(7)
    mask = np.random.default_rng(8).integers(0, 20, (1, *SIZE)).astype(np.uint8)
    recipe = Recipe([HorizontalFlip(0), operation], boxes=BoxParams(keep_empty=True))

    result = moved(recipe, Targets(boxes, masks=mask))

    theirs = function(tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE))
    np.testing.assert_allclose(result.boxes, theirs.numpy(), atol=1e-3)
    expected = function(tv_tensors.Mask(torch.from_numpy(mask))).numpy()
    assert (result.masks != expected).mean() < (0.005 if name == "affine" else 1e-9)


@pytest.mark.parametrize("name", [name for name in TORCHVISION if "crop" not in name])
def test_torchvision_moves_keypoints_the_same_way(name):
    """With pixel_index="flips" its kernels for KeyPoints give the same numbers."""
    operation, function = TORCHVISION[name]
    points = np.random.default_rng(9).uniform((20, 15), (60, 45), (30, 2))
    own = KeypointParams(remove_invisible=False, pixel_index="flips", flip_pairs=())

    result = moved(Recipe([operation], keypoints=own), Targets(keypoints=points))

    theirs = function(tv_tensors.KeyPoints(points, canvas_size=SIZE))
    np.testing.assert_allclose(result.keypoints, theirs.numpy(), atol=1e-3)
    with pytest.raises(RecipeError, match="pixel_index must be True or False, or 'flips'"):
        KeypointParams(pixel_index="turns")
