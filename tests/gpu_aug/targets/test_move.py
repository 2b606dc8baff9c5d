"""Targets follow the engine's pixels, through every spatial operation, stage, gate and mixing."""

import importlib
import pkgutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gpu_aug
import tests.support.rows
from gpu_aug import (
    BoxParams,
    CenterCrop,
    CutMix,
    HorizontalFlip,
    KeypointParams,
    MixUp,
    Mosaic,
    OneOf,
    RandomAffine,
    RandomApply,
    RandomErasing,
    RandomGridShuffle,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    SanitizeBoundingBoxes,
    Targets,
    TargetsError,
    VerticalFlip,
    move_batch,
)
from gpu_aug.ops.geometric.spatial import Crop, Remap, Reorient, Resample, Spatial
from gpu_aug.targets.boxes import areas
from gpu_aug.targets.move_batch import check_recipe, check_targets
from gpu_aug.targets.move_one import moves_targets
from tests.support.extent import EVERYTHING, trials
from tests.support.rows.row import SIZE

NUM = 4
few = settings(deadline=None, max_examples=trials(12), derandomize=True, database=None)
KEEP_ALL = {
    "boxes": BoxParams(check_each=False, keep_empty=True),
    "keypoints": KeypointParams(remove_invisible=False, flip_pairs=()),
}


SLOW = () if EVERYTHING else ("elastic, nearest", "elastic of albumentations, alike")
"""Elastic warps take seconds, and these lead their targets along fields as the other rows do."""


def collect() -> dict[str, Spatial]:
    """The spatial operations of all rows, and some of our own."""
    found = {
        "own: flip": HorizontalFlip(),
        "own: vertical flip": VerticalFlip(1),
        "own: crop": CenterCrop((40, 33)),
        "own: crop and pad": CenterCrop((70, 91)),
        "own: resize": Resize((100, 50)),
        "own: affine": RandomAffine(180, (0.1, 0.1), (0.7, 1.4), (-20, 20, -10, 10)),
        "own: random crop": RandomResizedCrop((50, 60), scale=(0.3, 1)),
    }
    for module in pkgutil.iter_modules(tests.support.rows.__path__):
        rows = getattr(importlib.import_module(f"tests.support.rows.{module.name}"), "ROWS", {})
        for label, row in rows.items():
            if label not in SLOW and all(
                isinstance(leaf, Spatial) for leaf in row.operation.leaves
            ):
                found[label] = row.operation
    return found


OPERATIONS = collect()
MIDDLE = (30, 20, 60, 40)  # a box, for crops that look at boxes


def plain_beside(operation: object) -> bool:
    """Whether there is black beside the image, so that what is bright is what was drawn."""
    leaves = operation.leaves  # type: ignore[attr-defined]
    return all(leaf.padding_mode == "constant" and not np.any(leaf.fill) for leaf in leaves)


PLAIN = [label for label in OPERATIONS if plain_beside(OPERATIONS[label])]


def recipe_with(operation: object, **params: object) -> Recipe:
    return Recipe([Resize(SIZE), HorizontalFlip(0), operation], **params)  # type: ignore[arg-type]


def moved_by(recipe: Recipe, *targets: Targets, seed: int = 0) -> list[Targets]:
    """Targets of images of SIZE after what the recipe draws for them."""
    num, boxes = len(targets), [() if one.boxes is None else one.boxes for one in targets]
    draws = recipe.draw(seed, 0, np.arange(num), np.array([SIZE] * num), boxes=boxes)
    return move_batch(recipe, draws, list(targets))


def rectangle(rng: np.random.Generator) -> np.ndarray:
    low = rng.integers((8, 6), (50, 36))
    return np.concatenate([low, low + rng.integers(14, 24, 2)]).astype(float)


def filled(box: np.ndarray) -> np.ndarray:
    image = np.zeros((*SIZE, 3), np.uint8)
    left, top, right, bottom = box.astype(int)
    image[top:bottom, left:right] = 255
    return image


@pytest.mark.parametrize("label", PLAIN)
def test_boxes_lie_around_the_moved_rectangle(label):
    """The box of a filled rectangle is that of its pixels after the engine, to a pixel and a half."""
    rng = np.random.default_rng(0)
    boxes = [rectangle(rng) for _ in range(NUM)]
    samples = [{"image": filled(box), "boxes": [box]} for box in boxes]

    results = gpu_aug.apply(recipe_with(OPERATIONS[label], **KEEP_ALL), samples, seed=0)

    compared = 0
    straight = all(
        isinstance(leaf, Reorient | Crop | Resample) for leaf in OPERATIONS[label].leaves
    )
    for result in results:
        image, box = result["image"].amax(0).numpy(), result["boxes"][0].double().numpy()
        rows, columns = np.nonzero(image > 0.5)
        scale = np.sqrt(max(areas(box[None])[0], 1e-9) / 300)
        if not len(rows) or min(box[2] - box[0], box[3] - box[1]) < 4:
            assert len(rows) < 100
            continue
        height, width = image.shape
        if not straight and ((box == 0) | (box == [width, height, width, height])).any():
            continue  # around the whole rectangle, turned, and then clipped: more than is seen
        seen = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        assert np.abs(seen - box).max() <= 1.5 * max(1, scale)
        compared += 1
    assert compared or image.size < 1000 or not straight


@pytest.mark.parametrize("label", PLAIN)
def test_keypoints_lie_on_the_moved_spot(label):
    """A bright spot's centre of mass is where its keypoint is, to half a pixel."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] + 0.5
    samples = []
    for _ in range(NUM):
        point = rng.uniform((20, 18), (64, 43))
        spot = np.exp(-((x - point[0]) ** 2 + (y - point[1]) ** 2) / 2 / 1.5**2)
        image = np.repeat(spot[..., None], 3, axis=2).astype(np.float32)
        samples.append({"image": image, "keypoints": [point], "boxes": [MIDDLE]})

    results = gpu_aug.apply(recipe_with(OPERATIONS[label], **KEEP_ALL), samples, seed=0)

    compared = 0
    for result in results:
        image, point = result["image"][0].double().numpy(), result["keypoints"][0].double().numpy()
        height, width = image.shape
        if not (7 < point[0] < width - 7 and 7 < point[1] < height - 7):
            continue
        compared += 1
        if any(isinstance(leaf, Remap) for leaf in OPERATIONS[label].leaves):
            x, y = point.astype(int)  # the spot may be torn or shown twice, but it is here
            assert image[y - 1 : y + 2, x - 1 : x + 2].max() > 0.6
            continue
        rows, columns = np.mgrid[:height, :width] + 0.5
        weight = np.where(image > 0.05 * image.max(), image, 0)
        center = np.array([(weight * columns).sum(), (weight * rows).sum()]) / weight.sum()
        # The nearest pixel, and that of the corner all the more, lies beside the exact place.
        assert np.abs(center - point).max() < (1 if "nearest" in label else 0.5)
    assert compared or "crop" in label or image.size < 1000


def labels_image(seed: int) -> np.ndarray:
    """Patches of 12 or 13 pixels, each of one value from 20 to 250, uint8 [*SIZE]."""
    values = np.random.default_rng(seed).integers(2, 26, (5, 7)) * 10
    return np.repeat(np.repeat(values, [12, 12, 12, 12, 13], axis=0), 12, axis=1).astype(np.uint8)


@pytest.mark.parametrize("label", OPERATIONS)
def test_masks_show_what_the_image_shows(label):
    """A picture of patches, moved as a mask and as an image, differs at the edges of patches only."""
    operation = OPERATIONS[label]
    pictures = [labels_image(seed) for seed in range(NUM)]
    boxes = [MIDDLE] if any(leaf.needs_boxes for leaf in operation.leaves) else None
    samples = [{"image": np.stack([p] * 3, axis=2), "mask": p, "boxes": boxes} for p in pictures]

    results = gpu_aug.apply(recipe_with(operation), samples, seed=0)

    compared, total = 0, 0
    for result in results:
        image, mask = result["image"][0] * 255, result["mask"].float()
        assert image.shape == mask.shape
        around = torch.nn.functional.pad(mask[None, None], (3, 3, 3, 3), value=-1)
        high = torch.nn.functional.max_pool2d(around, 7, 1)[0, 0]
        low = -torch.nn.functional.max_pool2d(-around, 7, 1)[0, 0]
        flat = (high == low) & ((mask > 0) | plain_beside(operation))
        ringing = 8 if "bicubic" in label else 1.5
        slivers = 0.05 if any(isinstance(leaf, Remap) for leaf in operation.leaves) else 0.002
        assert ((image - mask).abs()[flat] > ringing).sum() <= slivers * flat.sum()
        compared, total = compared + int(flat.sum()), total + mask.numel()
    assert compared > 200 or total < 10_000


RECIPE = Recipe(
    [
        CenterCrop((70, 60)),
        Resize((50, 50)),
        RandomApply([HorizontalFlip(1), VerticalFlip(1)], p=0.5),
        OneOf([RandomAffine(30), HorizontalFlip(1)]),
    ],
    **KEEP_ALL,  # type: ignore[arg-type]
)


def test_targets_follow_decode_stage_and_combinators():
    """Boxes, after crops with padding, a resize, gates and choices, lie around the pixels."""
    rng = np.random.default_rng(2)
    boxes = [rectangle(rng) * [0.7, 1, 0.7, 1] // 1 for _ in range(12)]
    samples = [{"image": filled(box), "boxes": [box]} for box in boxes]
    for result in gpu_aug.apply(RECIPE, samples, seed=0):
        rows, columns = np.nonzero(result["image"][0].numpy() > 0.5)
        seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        visible = result["boxes"][0].clamp(0, 50).numpy()
        assert np.abs(visible - seen).max() <= 1.5


@few
@given(st.integers(0, 1000), st.sampled_from(sorted(OPERATIONS)))
def test_a_closed_gate_changes_nothing(seed, label):
    """What was not applied leaves its targets as they are, bit by bit."""
    rng = np.random.default_rng(seed)
    recipe = Recipe([Resize(SIZE), HorizontalFlip(0), RandomApply([OPERATIONS[label]], p=0)])
    targets = Targets(
        boxes=[rectangle(rng)],
        keypoints=rng.uniform(0, 60, (3, 2)),
        masks=labels_image(seed)[None],
    )

    (moved,) = moved_by(recipe, targets, seed=seed)

    for name in ("boxes", "keypoints", "masks"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(targets, name), name)


def test_labels_follow_their_boxes():
    """A crop drops boxes with their labels and, one per box, their masks."""
    recipe = recipe_with(CenterCrop((20, 20)), boxes=BoxParams(instance_masks=True))
    boxes = [[0, 0, 10, 10], [35, 25, 45, 35], [70, 50, 80, 60], [38, 0, 46, 61]]
    masks = np.arange(4, dtype=np.uint8)[:, None, None] + np.zeros((1, *SIZE), np.uint8)

    (moved,) = moved_by(recipe, Targets(boxes, [7, 8, 9, 10], masks=masks))

    assert moved.box_labels.tolist() == [8, 10]
    assert moved.masks[:, 0, 0].tolist() == [1, 3]
    assert moved.boxes.tolist() == [[3, 5, 13, 15], [6, 0, 14, 20]]


# 40 wide, of which 31 are left, then 21 of 31; 21 of 40 together.
@pytest.mark.parametrize(
    ("share", "each", "left"),
    [(0.4, True, 1), (0.4, False, 1), (0.6, True, 1), (0.6, False, 0)],
)
def test_visibility_counts_from_check_to_check(share, each, left):
    """Two crops: checked each, both pass; at the end, what both leave counts."""
    crops = [CenterCrop((61, 42)), HorizontalFlip(0), CenterCrop((61, 22))]
    recipe = Recipe(crops, boxes=BoxParams(min_visibility=share, check_each=each))
    (moved,) = moved_by(recipe, Targets([[32.0, 0, 52 + 20, 61]]))
    assert len(moved.boxes) == left


@pytest.mark.parametrize(("remove", "left"), [(True, [2]), (False, [1, 2])])
def test_invisible_keypoints_go_or_stay(remove, left):
    """Outside the crop they are dropped with their labels, unless all shall stay."""
    params = KeypointParams(remove_invisible=remove)
    recipe = recipe_with(CenterCrop((20, 20)), keypoints=params)
    (moved,) = moved_by(recipe, Targets(keypoints=[[5, 5], [42, 30]], keypoint_labels=[1, 2]))
    assert (moved.keypoint_labels.tolist(), len(moved.keypoints)) == (left, len(left))


def test_sanitizing_is_torchvisions():
    """Small boxes go with their labels, as in torchvision's function."""
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional as tv

    rng = np.random.default_rng(3)
    low = rng.uniform(0, 50, (60, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.1, 8, (60, 2))], axis=1)
    recipe = recipe_with(SanitizeBoundingBoxes(2, 9), boxes=BoxParams(keep_empty=True))

    (moved,) = moved_by(recipe, Targets(boxes, np.arange(60)))

    theirs = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=SIZE)
    valid = tv.sanitize_bounding_boxes(theirs, min_size=2, min_area=9)[1].numpy()
    inside = (boxes[:, 2:] <= SIZE[::-1]).all(axis=1)
    assert 5 < valid.sum() < 55
    assert set(np.flatnonzero(valid)) == set(moved.box_labels[inside[moved.box_labels]])


def test_mosaic_shows_boxes_points_and_masks_where_it_shows_pixels():
    """Each sample's rectangle, mask and keypoint land in the window as the engine lands the image."""
    rng = np.random.default_rng(4)
    samples = []
    for number in range(4):
        box = rectangle(rng)
        image = filled(box) // 255 * np.uint8(60 * (number + 1))
        point = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2]
        samples.append(
            {
                "image": image,
                "mask": image[..., 0],
                "boxes": [box],
                "box_labels": [60 * (number + 1)],
                "keypoints": [point],
            }
        )
    results = gpu_aug.apply(recipe_with(Mosaic()), samples, seed=0)

    for result in results:
        image = (result["image"][0] * 255).round()
        assert (image == result["mask"]).all()
        assert result["boxes"].shape == result["boxes"].unique(dim=0).shape
        for value in (60, 120, 180, 240):
            rows, columns = torch.nonzero(image == value, as_tuple=True)
            mine = result["boxes"][result["box_labels"] == value]
            assert len(mine) == bool(len(rows))
            if len(rows):
                seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert mine[0].tolist() == [float(end) for end in seen]
        for x, y in result["keypoints"].int().tolist():
            assert image[y, x] > 0


def test_mixup_keeps_the_boxes_of_both():
    """Own boxes come first, then the partner's, as they were before."""
    a, b = Targets([[1, 2, 30, 40]], [1]), Targets([[5, 5, 9, 9], [0, 0, 4, 4]], [2, 3])

    one, two = moved_by(recipe_with(MixUp()), a, b)

    assert one.box_labels.tolist() == [1, 2, 3]
    assert two.box_labels.tolist() == [2, 3, 1]
    assert two.boxes.tolist() == [[5, 5, 9, 9], [0, 0, 4, 4], [1, 2, 30, 40]]


def test_cutmix_pastes_masks():
    """Masks get the rectangle that images get."""
    pictures = [labels_image(seed) for seed in range(4)]
    samples = [{"image": np.stack([p] * 3, axis=2), "mask": p} for p in pictures]

    results = gpu_aug.apply(recipe_with(CutMix()), samples, seed=0)

    for result in results:
        assert ((result["image"][0] * 255).round() == result["mask"]).all()
    assert any((r["mask"].numpy() != p).any() for p, r in zip(pictures, results, strict=True))


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (MixUp(), "masks"),
        (CutMix(), "boxes"),
        (CutMix(), "keypoints"),
        (RandomGridShuffle(), "boxes"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(operation, kind):
    """The operation and the kind of target stand in the error."""
    name = type(operation).__name__
    with pytest.raises(RecipeError, match=f"{name} cannot be done with {kind}"):
        check_recipe(recipe_with(operation), {kind})
    check_recipe(recipe_with(operation), set())


def test_samples_that_do_not_match_are_refused():
    """One sample has labels and its partner none."""
    with pytest.raises(TargetsError, match="MixUp needs box_labels of all samples"):
        moved_by(recipe_with(MixUp()), Targets([[1, 1, 2, 2]], [1]), Targets([[1, 1, 2, 2]]))


@pytest.mark.parametrize(("fill", "painted"), [(3, True), (None, False)])
def test_masks_are_painted_where_the_operation_says_so(fill, painted):
    """The same rectangle as in the image, with fill_mask; None leaves masks alone."""
    sample = {"image": np.full((*SIZE, 3), 255, np.uint8), "mask": labels_image(0)}
    recipe = recipe_with(RandomErasing(1, fill_mask=fill))
    (result,) = gpu_aug.apply(recipe, [sample], seed=0)
    hole = result["image"][0] == 0
    assert hole.any()
    assert (result["mask"].numpy()[~hole] == sample["mask"][~hole]).all()
    assert (result["mask"][hole] == 3).all() == painted


FLIPPED = recipe_with(HorizontalFlip())


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        (
            {"boxes": [[0, 0, np.nan, 3]]},
            "boxes must be finite numbers of float32, got .* in row 0",
        ),
        ({"boxes": [[0, 0, 3]]}, r"boxes must be .* got shape \[1, 3\]"),
        ({"boxes": [["a", 0, 3, 3]]}, "boxes must be .* got list"),
        (
            {"boxes": [[1, 1, 2, 2]], "box_labels": [1, 2]},
            r"box_labels must be one per .*\(1\)",
        ),
        ({"boxes": [[1, 1, 2, 2]], "box_labels": 1}, "got one value"),
        ({"box_labels": [1]}, "box_labels must come with boxes"),
        ({"keypoints": [[1, np.inf]]}, "keypoints must be finite"),
        ({"keypoints": [[1, 2, 3]]}, r"keypoints must be float \[K, 2\]"),
        ({"keypoints": [[1, 2]], "keypoint_labels": []}, "one per row of keypoints"),
        ({"masks": np.zeros((3, 3))}, "masks must be integers .* got float64"),
        ({"masks": np.zeros((3, 3), int)}, r"give a single mask as mask\[None\]"),
    ],
)
def test_wrong_values_are_named(fields, match):
    """The error says which field, what was got, and what is allowed."""
    with pytest.raises(TargetsError, match=match):
        Targets(**fields)


@pytest.mark.parametrize(
    ("targets", "match"),
    [
        (Targets([[0, 0, 90, 10]]), r"boxes must lie in the image, 61x84, got .* in row 0"),
        (Targets([[0, 0, 9, 9], [5, 5, 5, 9]]), "right > left .* in row 1"),
        (
            Targets(masks=np.zeros((1, 60, 84), int)),
            "masks must be as large .* 61x84, got 60x84",
        ),
    ],
)
def test_what_does_not_fit_the_image_is_named(targets, match):
    """So before a batch as within it, where the row is named too."""
    with pytest.raises(TargetsError, match=match):
        check_targets(FLIPPED, targets, SIZE)
    with pytest.raises(TargetsError, match=f"sample 1: .*{match}"):
        moved_by(FLIPPED, Targets(), targets)


def test_boxes_that_leave_the_image_are_clipped_if_asked():
    """With clip and filter_invalid they come in, or go."""
    recipe = recipe_with(HorizontalFlip(0), boxes=BoxParams(clip=True, filter_invalid=True))

    (moved,) = moved_by(recipe, Targets([[-5, 0, 90, 10], [85, 0, 99, 10]], [1, 2]))

    assert (moved.boxes.tolist(), moved.box_labels.tolist()) == ([[0, 0, 84, 10]], [1])


def test_a_fill_that_the_mask_cannot_hold_is_refused():
    """fill_mask=300 does not fit into uint8, and is not wrapped around."""
    recipe = recipe_with(RandomErasing(1, fill_mask=300))

    with pytest.raises(TargetsError, match="fill_mask=300 of RandomErasing, got uint8"):
        moved_by(recipe, Targets(masks=np.zeros((1, *SIZE), np.uint8)))


def test_nothing_at_all_is_fine():
    """Empty boxes, keypoints and masks, and none, pass through all operations."""
    empty = Targets([], [], [], [], np.zeros((0, *SIZE), np.uint8))
    for operation in OPERATIONS.values():
        moved, none = moved_by(recipe_with(operation), empty, Targets())
        assert (moved.boxes.shape, moved.box_labels.shape) == ((0, 4), (0,))
        assert not none


@pytest.mark.parametrize(
    ("params", "match"),
    [
        (
            {"format": "xyhw"},
            "BoxParams format must be one of xyxy, xywh, cxcywh, xywhr, .* got 'xyhw'",
        ),
        (
            {"format": "coco", "normalized": True},
            "'coco' means boxes in pixels, got normalized=True",
        ),
        ({"min_visibility": 2}, "min_visibility must be a number from 0 to 1"),
        ({"min_area": -1}, "min_area must be a number from 0"),
        ({"max_accept_ratio": 0.5}, "max_accept_ratio must be None or a number from 1"),
        ({"clip": 1}, "clip must be True or False"),
    ],
)
def test_wrong_params_are_named(params, match):
    """The field, the value and what is allowed stand in the error."""
    with pytest.raises(RecipeError, match=match):
        BoxParams(**params)


def test_spatial_operations_are_all_known():
    """Every concrete operation that moves pixels moves targets too."""
    unknown = [
        name
        for name, cls in gpu_aug.Operation._classes.items()
        if cls.__module__.startswith("gpu_aug.")  # other tests define operations
        and issubclass(cls, Spatial)
        and not moves_targets(cls.__new__(cls))
    ]
    assert not unknown


def test_params_are_part_of_the_recipe():
    """They are saved, loaded and fingerprinted, and only where they were given."""
    plain = recipe_with(HorizontalFlip())
    given = recipe_with(
        HorizontalFlip(),
        boxes=BoxParams(format="xywh", min_area=9),
        keypoints=KeypointParams(remove_invisible=False),
    )

    assert Recipe.from_dict(given.to_dict()) == given
    assert "boxes" not in plain.to_dict()
    assert given.fingerprint != plain.fingerprint
    views = gpu_aug.Views([given, plain])
    assert gpu_aug.Views.from_dict(views.to_dict()) == views
    with pytest.raises(RecipeError, match="BoxParams has no 'min_size'"):
        Recipe.from_dict(plain.to_dict() | {"boxes": {"min_size": 1}})


def test_a_mosaic_shows_no_keypoint_outside_its_own_tile():
    """A keypoint that a crop cut away stays away where a neighbour's tile comes to lie, checked late or not."""
    image = np.zeros((40, 40, 3), np.uint8)
    # The crop keeps the middle, so none of these is left.
    corners = [[1.0, 1], [39, 1], [1, 39], [39, 39]]
    samples = [{"image": image, "keypoints": corners} for _ in range(4)]
    for check_each in (True, False):
        params = KeypointParams(check_each=check_each)
        recipe = Recipe([CenterCrop(20), Mosaic(p=1.0)], keypoints=params)

        results = gpu_aug.apply(recipe, samples, seed=0)

        assert [len(result["keypoints"]) for result in results] == [0, 0, 0, 0]
