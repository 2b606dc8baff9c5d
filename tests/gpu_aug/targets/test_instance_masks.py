"""One mask per box: masks are dropped with their boxes, and boxes can be computed from moved masks."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.ops import masks_to_boxes

import gpu_aug
from gpu_aug import (
    D4,
    Affine,
    BoxParams,
    CenterCrop,
    CoarseDropout,
    GridDistortion,
    HorizontalFlip,
    MaskParams,
    Mosaic,
    Operation,
    Perspective,
    RandomCrop,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    Targets,
    TargetsError,
    move_batch,
)
from gpu_aug.targets.box_formats import in_format, to_corners

SIZE = (48, 64)
CROP = CenterCrop((20, 20))  # [22, 42) x [14, 34)
BOXES = [[0.0, 0, 10, 10], [25, 15, 35, 25], [50, 30, 60, 40]]
ALL = BoxParams(boxes_from_masks=True)


def layers(*boxes: Any) -> np.ndarray:
    """A mask per box, whose pixels have the box's number from 1."""
    masks = np.zeros((len(boxes), *SIZE), np.uint8)
    for number, (left, top, right, bottom) in enumerate(np.array(boxes, int)):
        masks[number, top:bottom, left:right] = number + 1
    return masks


def discs(rng: np.random.Generator, count: int) -> np.ndarray:
    """Masks of discs, which rotated boxes do not fit."""
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    centers, radii = rng.uniform(12, 36, (count, 2)), rng.uniform(3, 10, count)
    near = zip(centers, radii, strict=True)
    return np.stack([(x - cx) ** 2 + (y - cy) ** 2 < r * r for (cx, cy), r in near]).astype(
        np.int32
    )


def tight(masks: Any) -> np.ndarray:
    """Torchvision's boxes, which end at the last pixel, as half open ones."""
    found = masks_to_boxes(torch.as_tensor(np.asarray(masks), dtype=torch.int64))
    return found.double().numpy() + np.array([0, 0, 1, 1])


def moved(recipe: Recipe, *targets: Targets, seed: int = 0) -> list[Targets]:
    draws = recipe.draw(seed, 0, np.arange(len(targets)), np.array([SIZE] * len(targets)))
    return move_batch(recipe, draws, list(targets))


@pytest.mark.parametrize(
    ("more", "params", "left", "is_said"),
    [
        ({}, {}, [2], True),
        ({}, {"boxes": BoxParams(instance_masks=True)}, [2], False),
        ({}, {"masks": MaskParams()}, [1, 2, 3], False),
        ({"masks": layers(*BOXES)[:2]}, {}, [1, 2], False),
        ({"mask": layers(BOXES[0])[0], "masks": layers(*BOXES)[:2]}, {}, [1, 2], False),
        ({"masks": None, "mask": layers(BOXES[1])[0]}, {}, None, False),
    ],
)
@pytest.mark.parametrize("way", ["apply", "transform"])
def test_masks_stay_with_their_boxes(
    way: str, more: Any, params: Any, left: list[int] | None, is_said: bool
) -> None:
    """If there are as many; a single ``mask`` and masks of classes stay."""
    image = np.zeros((*SIZE, 3), np.uint8)
    sample = {"image": image, "boxes": BOXES, "masks": layers(*BOXES)} | more
    sample = {key: value for key, value in sample.items() if value is not None}
    recipe = Recipe([CROP], **params)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = (
            recipe.transform(0)(sample)
            if way == "transform"
            else gpu_aug.apply(recipe, [sample])[0]
        )

    assert len(result["boxes"]) == 1
    if left is None:
        assert (result["mask"] > 0).sum() == 100
    else:
        values = [number for number in (1, 2, 3) if number in left]
        assert len(result["masks"]) == len(values)
        assert (result["masks"].amax((1, 2)) == torch.tensor([2 * (n == 2) for n in values])).all()
    assert ["as many masks as boxes" in str(one.message) for one in said] == [True] * is_said


CHAINS: dict[str, list[Operation]] = {
    "D4": [D4(1)],
    "affine": [Affine(rotate=(-90, 90), shear=((-30, 30), (-70, 70)), scale=(0.5, 1.5), p=1)],
    "perspective": [Perspective((0.05, 0.15), p=1)],
    "warp": [GridDistortion(p=1)],
    "crops": [
        RandomCrop((30, 40)),
        RandomResizedCrop((40, 40), scale=(0.2, 1.0)),
        HorizontalFlip(),
    ],
    "holes": [CoarseDropout((3, 3), (0.2, 0.4), (0.2, 0.4), fill_mask=0, p=1)],
    "mosaic": [Resize(SIZE), Mosaic(), D4()],
}


@pytest.mark.parametrize("name", CHAINS)
def test_boxes_are_those_of_the_moved_masks(name: str) -> None:
    """The tight boxes that torchvision computes from the masks of the results; others than moved boxes."""
    rng = np.random.default_rng(1)
    targets = []
    for number in range(48):
        masks = discs(rng, 3)
        labels = [3 * number, 3 * number + 1, 3 * number + 2]
        targets.append(Targets(tight(masks), labels, masks=masks))
    results = moved(Recipe(CHAINS[name], boxes=ALL), *targets)
    plain = moved(Recipe(CHAINS[name], boxes=BoxParams(instance_masks=True)), *targets)
    compared, differing = 0, 0

    for result, other in zip(results, plain, strict=True):
        assert result.boxes is not None
        assert result.masks is not None
        assert result.box_labels is not None
        assert other.boxes is not None
        assert len(result.boxes) == len(result.masks) == len(result.box_labels)
        np.testing.assert_array_equal(result.boxes, tight(result.masks))
        compared += len(result.boxes)
        differing += len(other.boxes) != len(result.boxes) or not np.allclose(
            other.boxes, result.boxes, atol=0.9
        )
    assert compared > 48
    assert differing or name == "D4"


@pytest.mark.parametrize(
    ("params", "left"),
    [
        ({}, [0, 1]),
        ({"min_area": 17}, [0]),
        ({"min_width": 5}, [0]),
        ({"keep_empty": True}, [0, 1, 2]),
        ({"check_each": False, "min_height": 5}, [0]),
        ({"min_visibility": 0.5}, [0]),
    ],
)
def test_vanished_masks_go_with_their_boxes(params: dict[str, Any], left: list[int]) -> None:
    """The filters see the boxes of the masks: full in the crop, a corner of 4 x 4 pixels, and nothing, though its box is in it."""
    masks = layers([25, 15, 35, 25], [38, 30, 50, 40], [30, 20, 45, 35])
    masks[2, 14:34, 22:42] = 0
    boxes = [[25.0, 15, 35, 25], [38, 30, 50, 40], [30, 20, 45, 35]]
    recipe = Recipe([CROP], boxes=BoxParams(boxes_from_masks=True, **params))

    [result] = moved(recipe, Targets(boxes, [0, 1, 2], masks=masks))

    assert result.box_labels is not None
    assert result.boxes is not None
    assert result.box_labels.tolist() == left
    assert result.boxes[0].tolist() == [3, 1, 13, 11]
    if params.get("keep_empty"):
        assert result.boxes[2].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("keep_empty", [False, True])
@pytest.mark.parametrize("operation", [CenterCrop(20), HorizontalFlip(1)])
@pytest.mark.parametrize("behind", [[], [Resize((32, 32)), Mosaic()]])
def test_oriented_boxes_without_pixels_are_as_upright_ones(
    behind: list[Operation], operation: Operation, keep_empty: bool
) -> None:
    """A mask that is empty, one that loses its pixels and one that keeps them: the same boxes are left, as large."""
    masks = np.zeros((3, 64, 64), np.uint8)
    masks[1, 2:8, 2:8] = masks[2, 30:36, 28:34] = 1
    upright = np.array([[2.0, 2, 8, 8], [2, 2, 8, 8], [28, 30, 34, 36]])
    found = []
    for form in ("xyxy", "xyxyxyxy", "cxcywhr", "xywhr"):
        params = BoxParams(form, boxes_from_masks=True, keep_empty=keep_empty)  # type: ignore[arg-type]
        recipe = Recipe([operation, *behind], boxes=params)
        draws = recipe.draw(0, 0, np.arange(4), np.array([(64, 64)] * 4))
        boxes = in_format(upright, "xyxy", params, (64, 64))
        results = move_batch(recipe, draws, [Targets(boxes, [0, 1, 2], masks=masks)] * 4)
        labels = [one.box_labels.tolist() for one in results]  # type: ignore[union-attr]
        corners = [to_corners(one.boxes, params, (32, 32)) for one in results]  # type: ignore[arg-type]
        around = [np.concatenate([one.min(axis=1), one.max(axis=1)], 1) for one in corners]
        found.append((labels, np.concatenate(around)))

    for labels, around in found[1:]:
        assert labels == found[0][0]
        np.testing.assert_allclose(around, found[0][1], atol=1e-6)
    if not behind:
        left = [2] if isinstance(operation, CenterCrop) else [1, 2]
        assert found[0][0] == [[0, 1, 2] if keep_empty else left] * 4


def test_a_mosaic_takes_samples_without_objects() -> None:
    """No boxes and no masks are 0 of both."""
    one = Targets([[20.0, 10, 40, 30]], [1], masks=layers([20, 10, 40, 30]))
    none = Targets(np.empty((0, 4)), [])
    results = moved(Recipe([Resize(SIZE), Mosaic(p=1)], boxes=ALL), one, none, none, one)

    assert any(result.boxes is not None and len(result.boxes) for result in results)
    for result in results:
        assert result.boxes is not None
        assert result.masks is not None
        assert len(result.boxes) == len(result.masks)


def test_masks_of_classes_stay_so_in_a_mosaic() -> None:
    """Where one of four samples happens to have as many boxes as masks, the masks are not those of boxes."""
    two = layers([20, 10, 40, 30], [2, 2, 6, 6])
    samples = [
        Targets([[20.0, 10, 40, 30]] * count, np.arange(count), masks=two) for count in (2, 3, 3, 3)
    ]
    recipe = Recipe([Resize(SIZE), Mosaic(p=1), CROP])
    draws = recipe.draw(0, 0, np.arange(4), np.array([SIZE] * 4))
    for result in move_batch(recipe, draws, samples, separate_masks=[True] * 4):
        assert result.masks is not None
        assert len(result.masks) == 2


def test_boxes_need_their_masks() -> None:
    """A sample with boxes alone is refused; one without objects is not."""
    recipe = Recipe([CROP], boxes=ALL)
    with pytest.raises(TargetsError, match=r"masks must be one per box.*got 0 masks and 1 boxes"):
        moved(recipe, Targets([[0, 0, 9, 9]]))
    [result] = moved(recipe, Targets(np.empty((0, 4))))
    assert result.boxes is not None
    assert len(result.boxes) == 0
    assert BoxParams(boxes_from_masks=True).instance_masks
    with pytest.raises(RecipeError, match="no equal in Albumentations"):
        recipe.to_albumentations()
