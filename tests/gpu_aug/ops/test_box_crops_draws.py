"""Crops whose draw looks at boxes, against the classes of torchvision and Albumentations."""

from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpu_aug import (
    AtLeastOneBBoxRandomCrop,
    BBoxSafeRandomCrop,
    BoxParams,
    CenterCrop,
    HorizontalFlip,
    Identity,
    Mosaic,
    OneOf,
    Operation,
    RandomApply,
    RandomCropNearBBox,
    RandomIoUCrop,
    RandomOrder,
    RandomResizedCrop,
    RandomSizedBBoxSafeCrop,
    RandomZoomOut,
    Recipe,
    Resize,
    SanitizeBoundingBoxes,
    Views,
    apply,
)
from gpu_aug.convert import from_albumentations, from_torchvision
from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.targets.box_formats import in_format
from gpu_aug.targets.boxes import from_xyxy
from gpu_aug.targets.move_batch import move_batch
from gpu_aug.targets.targets import Targets
from tests.support.laws import imported

SIZE = (97, 131)
BOXES = [[10, 20, 60, 50], [70, 5, 125, 90], [30, 60, 50, 80]]
CROPS = [
    RandomIoUCrop(),
    RandomSizedBBoxSafeCrop(32),
    BBoxSafeRandomCrop(),
    AtLeastOneBBoxRandomCrop(32),
    RandomCropNearBBox(0.4),
]
FIRST = [RandomZoomOut(p=0.7), HorizontalFlip()]


def rectangles(recipe: Recipe, boxes: Any, num: int, **options: Any) -> np.ndarray:
    """Left, top, width and height of what the last crop of a recipe draws, [num, 4]; the full image where it is not done."""
    sizes = np.tile([SIZE], (num, 1))
    indices = options.pop("indices", np.arange(num))
    draws = recipe.draw(0, 0, indices, sizes, boxes=boxes, **options)
    params, sizes = draws.decode_params + draws.params, draws.sizes
    for leaf, drawn in zip(recipe.leaves, params, strict=True):
        if leaf.needs_boxes:
            is_done = drawn["apply"][:, None]
            start, shape = (
                np.where(is_done, drawn["start"], 0),
                np.where(is_done, drawn["shape"], sizes),
            )
        sizes = leaf.result_size(drawn, sizes)
    return np.concatenate([start[:, ::-1], shape[:, ::-1]], axis=1)


def of_torchvision(transform: Any, boxes: list, num: int) -> np.ndarray:
    """The same of a class of torchvision."""
    torch.manual_seed(0)
    corners = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    given = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=SIZE)
    inputs, names = [torch.zeros(3, *SIZE), given], ("left", "top", "width", "height")
    drawn = (transform.make_params(inputs) for _ in range(num))
    return np.array([[p[name] for name in names] if p else [0, 0, *SIZE[::-1]] for p in drawn])


def of_albumentations(transform: Any, boxes: list, num: int) -> np.ndarray:
    """The same of a class of Albumentations, which gets boxes as shares."""
    transform.set_random_seed(0)
    shares = np.array(boxes, np.float32).reshape(-1, 4) / np.float32((*SIZE[::-1], *SIZE[::-1]))
    data = {"bboxes": shares, "cropping_bbox": boxes[0] if boxes else None}
    drawn = []
    for _ in range(num):
        found = transform.get_params_dependent_on_data({"shape": (*SIZE, 3)}, data)
        left, top, right, bottom = found["crop_coords"]
        drawn.append((left, top, right - left, bottom - top))
    return np.array(drawn)


def same_law(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether left, top, width and height of two samples may have one law: Kolmogorov and Smirnov's p is above 0.001."""
    pairs = zip(ours.T, theirs.T, strict=True)
    return all(ks_2samp(one, other, method="asymp").pvalue > 0.001 for one, other in pairs)


ORIGINALS = [
    v2.RandomIoUCrop(),
    v2.RandomIoUCrop(0.1, 0.8, 0.8, 1.5, sampler_options=[0.3, 0.5, 1.0]),
    v2.RandomIoUCrop(sampler_options=[0.0, 1.5], trials=2),
    A.BBoxSafeRandomCrop(),
    A.BBoxSafeRandomCrop(0.3),
    A.BBoxSafeRandomCrop(1.0),
    A.RandomSizedBBoxSafeCrop(32, 48, erosion_rate=0.3),
    A.AtLeastOneBBoxRandomCrop(40, 45),
    A.AtLeastOneBBoxRandomCrop(20, 100, erosion_factor=0.3),
    A.AtLeastOneBBoxRandomCrop(40, 45, erosion_factor=1.0),
    A.RandomCropNearBBox(),
    A.RandomCropNearBBox((0.3, 0.9)),
    A.RandomCropNearBBox((1, 1)),
]


CASES = [
    pytest.param(one, num, id=f"{one}-{num}")
    for one in ORIGINALS
    for num in (0, 1, 3)
    # Without boxes, Albumentations stops with an error, and torchvision goes on until it draws an option that leaves the image.
    if num or not isinstance(one, A.RandomCropNearBBox | v2.RandomIoUCrop)
]


@pytest.mark.parametrize(("transform", "num_boxes"), CASES)
def test_draws_have_the_law_of_the_original(transform: Any, num_boxes: int) -> None:
    """An imported crop draws the rectangles of its class, and another crop's are told apart."""
    check_law(transform, BOXES[:num_boxes], 700)


@pytest.mark.long
@pytest.mark.parametrize(("transform", "num_boxes"), CASES)
def test_many_draws_have_the_law_of_the_original(transform: Any, num_boxes: int) -> None:
    """The same over 5,000 draws of both."""
    check_law(transform, BOXES[:num_boxes], 5000)


def check_law(transform: Any, boxes: list, num: int) -> None:
    is_torchvision = isinstance(transform, v2.Transform)
    theirs = (of_torchvision if is_torchvision else of_albumentations)(transform, boxes, num)

    assert same_law(rectangles(Recipe([imported(transform)]), [boxes] * 5000, 5000), theirs)
    assert not same_law(of_another_crop(num), theirs)


def of_another_crop(num: int) -> np.ndarray:
    """The rectangles of RandomResizedCrop."""
    [drawn] = (
        Recipe([RandomResizedCrop(32)])
        .draw(0, 0, np.arange(num), np.tile([SIZE], (num, 1)))
        .decode_params
    )
    return np.concatenate([drawn["start"][:, ::-1], drawn["shape"][:, ::-1]], axis=1)


def test_an_iou_crop_leaves_images_without_boxes() -> None:
    """As in torchvision, only an option from 1 ends the search, and it leaves the image as it is."""
    recipe = Recipe([RandomIoUCrop()])

    assert rectangles(recipe, [[]] * 9, 9).tolist() == [[0, 0, *SIZE[::-1]]] * 9


def test_iou_crops_have_boxes_as_torchvision() -> None:
    """For one rectangle, the boxes after the crop and after SanitizeBoundingBoxes are torchvision's own."""
    params = from_torchvision(v2.Compose([v2.RandomIoUCrop()])).boxes
    recipes = [
        Recipe([RandomIoUCrop(), *more], boxes=params) for more in ([], [SanitizeBoundingBoxes()])
    ]
    sizes = np.tile([SIZE], (40, 1))
    original, dropped = v2.RandomIoUCrop(), 0
    corners = torch.tensor(BOXES, dtype=torch.float32)
    given = tv_tensors.BoundingBoxes(corners, format="XYXY", canvas_size=SIZE)
    targets = [Targets(boxes=BOXES)] * 40
    draws = [one.draw(0, 0, np.arange(40), sizes, boxes=[BOXES] * 40) for one in recipes]
    moved, kept = (
        move_batch(one, drawn, targets) for one, drawn in zip(recipes, draws, strict=True)
    )
    drawn = [draws[0].decode_params[0][name] for name in ("start", "shape", "apply")]
    for row, params in enumerate(zip(*drawn, strict=True)):
        start, shape, is_done = params
        centers = (corners[:, :2] + corners[:, 2:]) / 2
        low, high = torch.tensor(start[::-1].copy()), torch.tensor((start + shape)[::-1].copy())
        within = ((centers > low) & (centers < high)).all(dim=1)
        names = {"top": start[0], "left": start[1], "height": shape[0], "width": shape[1]}
        told = {key: int(value) for key, value in names.items()} | {"is_within_crop_area": within}
        expected = original.transform(given, told if is_done else {})
        after = v2.SanitizeBoundingBoxes(labels_getter=None)(expected)
        dropped += len(corners) - len(after)
        assert np.array_equal(moved[row].boxes, np.asarray(expected))
        assert np.array_equal(kept[row].boxes, np.asarray(after))
    assert dropped


@pytest.mark.parametrize("crop", CROPS, ids=repr)
def test_a_draw_depends_on_its_own_boxes_alone(crop: Operation) -> None:
    """A row drawn alone, or among others, has one rectangle; other boxes give another."""
    recipe, rng = Recipe([*FIRST, crop]), np.random.default_rng(0)
    low = rng.integers(0, 60, (12, 5, 2))
    boxes = [own[: number % 4] for number, own in enumerate(np.concatenate([low, low + 30], 2))]
    together = rectangles(recipe, boxes, 12)

    alone = [
        rectangles(recipe, [own], 1, indices=np.array([number])) for number, own in enumerate(boxes)
    ]
    assert np.array_equal(np.concatenate(alone), together)
    assert not np.array_equal(rectangles(recipe, boxes[::-1], 12), together)


@pytest.mark.parametrize("crop", CROPS, ids=repr)
@pytest.mark.parametrize(
    ("form", "normalized"), [("xyxy", False), ("xywh", False), ("cxcywh", True), ("xyxy", True)]
)
def test_boxes_in_all_formats_give_one_draw(crop: Operation, form: Any, normalized: bool) -> None:
    """The form of the boxes changes no draw."""
    expected = rectangles(Recipe([*FIRST, crop]), [BOXES] * 8, 8)
    params = BoxParams(form, normalized=normalized)
    written = from_xyxy(np.array(BOXES, float), params, SIZE)

    assert np.array_equal(
        rectangles(Recipe([*FIRST, crop], boxes=params), [written] * 8, 8), expected
    )


def moved_first(recipe: Recipe, number: int, num: int) -> tuple[list, np.ndarray, np.ndarray]:
    """Boxes and sizes of images after the first leaves of a recipe, and what the next leaf draws."""
    sizes = np.tile([SIZE], (num, 1))
    draws = recipe.draw(0, 0, np.arange(num), sizes, boxes=[BOXES] * num)
    params = draws.decode_params + draws.params
    first = Recipe(recipe.leaves[:number], boxes=recipe.boxes)
    own = first.draw(0, 0, np.arange(num), sizes)
    parts = params[:number]
    own = type(own)(own.crops, parts, (), sizes, draws.partners)
    moved = move_batch(first, own, [Targets(boxes=BOXES)] * num)
    return [one.boxes for one in moved], first.result_sizes(own), params[number]


@pytest.mark.parametrize("form", ["xyxy", "cxcywhr"])
@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: type(crop).__name__)
def test_boxes_without_area_do_not_count(crop: Operation, form: Any) -> None:
    """A crop draws as if keep_empty had not kept the first box, which the step before has emptied."""
    inner = [[40.0, 30, 70, 60], [60, 40, 90, 65]]
    found = []
    for boxes, keep_empty in (([[0, 0, 9, 9], *inner], True), (inner, False)):
        params = BoxParams(form, keep_empty=keep_empty)
        given = in_format(np.array(boxes, float), "xyxy", params, SIZE)
        recipe = Recipe([CenterCrop(60), crop, Resize(32)], boxes=params)
        found.append(rectangles(recipe, [given] * 32, 32))

    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "steps",
    [
        FIRST,
        [Resize((150, 90)), HorizontalFlip(1.0)],
        [OneOf([CenterCrop(60), Resize(80)])],
        [Resize((90, 90)), Mosaic()],
    ],
    ids=repr,
)
def test_a_crop_sees_the_boxes_after_the_steps_before_it(steps: list) -> None:
    """The rectangle contains all boxes that have come through the steps before, those of mixed images among them."""
    recipe = Recipe([*steps, BBoxSafeRandomCrop(), Resize(64)])
    number = sum(len(step.leaves) for step in steps)
    boxes, sizes, drawn = moved_first(recipe, number, 64)

    start, stop = drawn["start"][:, ::-1], (drawn["start"] + drawn["shape"])[:, ::-1]
    there = [row for row, own in enumerate(boxes) if len(own)]
    assert len(there) > 40
    for row in there:
        assert (start[row] <= boxes[row][:, :2].min(0)).all()
        assert (stop[row] + 1 > boxes[row][:, 2:].max(0)).all()
    assert (drawn["start"] + drawn["shape"] <= sizes).all()


@pytest.mark.parametrize("kind", [RandomApply, RandomOrder, OneOf])
def test_a_crop_inside_a_combinator_sees_the_boxes_there(kind: Any) -> None:
    """What stands before it in the combinator has moved its boxes, and all results keep them."""
    inner = [HorizontalFlip(1.0), BBoxSafeRandomCrop(), RandomZoomOut(p=1.0), BBoxSafeRandomCrop()]
    recipe = Recipe([kind(inner)])
    [result] = {len(one["boxes"]) for one in apply(recipe, [sample()] * 30, seed=0)}

    assert result == len(BOXES)


def sample() -> dict[str, Any]:
    image = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    return {"image": image, "boxes": BOXES, "box_labels": [1, 2, 3]}


def test_an_iou_crop_that_reaches_no_option_leaves_the_image() -> None:
    """A tiny box never fills 0.9 of a crop: after the last round the image stays, and torchvision would go on for ever."""
    recipe = Recipe([RandomIoUCrop(sampler_options=[0.9])])

    assert rectangles(recipe, [[[3, 3, 5, 5]]] * 4, 4).tolist() == [[0, 0, *SIZE[::-1]]] * 4


def test_a_small_image_is_placed_in_the_middle_of_its_crop() -> None:
    """AtLeastOneBBoxRandomCrop pads an image that is too small, as CenterCrop does."""
    crop = Recipe([AtLeastOneBBoxRandomCrop((120, 90))])
    start = rectangles(crop, [BOXES] * 9, 9)
    expected = Recipe([CenterCrop((120, 90))]).draw(0, 0, np.arange(9), np.tile([SIZE], (9, 1)))

    assert (start[:, 1] == expected.decode_params[0]["start"][:, 0]).all()
    assert (start[:, 0] >= 0).all()


def test_a_crop_that_looks_at_boxes_reaches_the_decoder() -> None:
    """It is in the decode stage, alone or with the Resize behind it, unless it is done to a share of the images."""
    for crop in CROPS:
        behind = [] if "Sized" in repr(crop) else [Resize((20, 20))]
        assert Recipe([crop, *behind]).decode_operations == (crop, *behind)
    assert Recipe([BBoxSafeRandomCrop(p=0.5), Resize(9)]).decode_operations == ()


@pytest.mark.parametrize("crop", CROPS, ids=repr)
@pytest.mark.parametrize("behind", [[], [Identity(), HorizontalFlip()]])
def test_engines_have_one_result(crop: Operation, behind: list) -> None:
    """Fused, Kornia and Albumentations give the same pixels and boxes, in and behind the decode stage."""
    recipe = Recipe([*behind, crop, Resize((24, 24))])
    samples = [sample(), sample() | {"boxes": BOXES[1:2], "box_labels": [7]}]
    by = [
        apply(recipe, samples, seed=5, epoch=1, indices=[3, 9], engine=engine)
        for engine in ("fused", "kornia", "albumentations")
    ]
    for other in by[1:]:
        for one, same in zip(by[0], other, strict=True):
            assert torch.allclose(one["image"], same["image"], atol=1e-4)
            assert torch.equal(one["boxes"], same["boxes"])
            assert torch.equal(one["box_labels"], same["box_labels"])


def test_views_and_transforms_draw_as_apply() -> None:
    """`apply`, the transform, and each view of Views see the boxes."""
    recipe = Recipe([*FIRST, RandomIoUCrop(), Resize((24, 24))])
    [expected] = apply(recipe, [sample()], seed=4, epoch=2, indices=[6])
    [views] = apply(Views([recipe, recipe]), [sample()], seed=4, epoch=2, indices=[6])
    transform = recipe.transform(seed=4)
    transform.set_epoch(2)
    done = transform({**sample(), "image": sample()["image"]}, index=6)

    assert torch.equal(views[0]["image"], expected["image"])
    assert not torch.equal(views[1]["image"], expected["image"])
    assert torch.equal(done["boxes"], expected["boxes"])


IMAGE = np.zeros((*SIZE, 3), np.uint8)
LOOKS = Recipe([RandomIoUCrop(), Resize((9, 9))])


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: apply(LOOKS, [sample(), {"image": IMAGE}]), TargetsError, "sample 1: boxes must be given"),
        (lambda: LOOKS.transform(seed=0)(IMAGE), TargetsError, "boxes must be given, for RandomIoUCrop"),
        (lambda: LOOKS.transform(seed=0)([IMAGE]), RecipeError, "RandomIoUCrop looks at the boxes"),
        (lambda: LOOKS.draw(0, 0, [0], [SIZE]), RecipeError, "give boxes="),
        (lambda: LOOKS.draw(0, 0, [0], [SIZE], boxes=[[], []]), TargetsError, r"one list per sample \(1\), got 2"),
        (lambda: LOOKS.draw(0, 0, [0], [SIZE], boxes=[[[0, 0, 999, 9]]]), TargetsError, "boxes must lie in the image"),
        (lambda: RandomIoUCrop(0.5, 0.4), RecipeError, "max_scale must be at least min_scale=0.5"),
        (lambda: RandomIoUCrop(sampler_options=[]), RecipeError, "sampler_options must be None or a list"),
        (lambda: RandomIoUCrop(trials=0), RecipeError, "trials must be a whole number from 1"),
        (lambda: RandomCropNearBBox((0.5, 0.1)), RecipeError, "max_part_shift must be"),
        (lambda: BBoxSafeRandomCrop(1.5), RecipeError, "erosion_rate must be a number from 0 to 1"),
        (lambda: AtLeastOneBBoxRandomCrop(0), RecipeError, "size must be"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(call: Any, error: type[Exception], said: str) -> None:
    """The error names what is missing or not allowed."""
    with pytest.raises(error, match=said):
        call()


def test_pipelines_of_both_libraries_run_on_a_sample() -> None:
    """SSD's pipeline of torchvision and Hugging Face's of Albumentations are imported, and boxes come through."""
    boxes = A.BboxParams(format="coco", label_fields=["category"], clip=True, min_area=16)
    steps = [v2.RandomZoomOut(fill=0), v2.RandomIoUCrop(), v2.SanitizeBoundingBoxes()]
    with_coco = sample() | {"boxes": [[10, 20, 50, 30]], "box_labels": [1]}
    crop = A.RandomSizedBBoxSafeCrop(32, 40, p=1.0)
    resized = from_albumentations(A.Compose([crop, A.HorizontalFlip()], bbox_params=boxes))
    ssd = from_torchvision(v2.Compose([v2.ToImage(), *steps]))
    results = apply(resized, [with_coco] * 9, seed=0)

    assert all(one["image"].shape == (3, 32, 40) and len(one["boxes"]) == 1 for one in results)
    assert {len(one["boxes"]) for one in apply(ssd, [sample()] * 30, seed=0)} >= {1, 2, 3}
    assert from_albumentations(resized.to_albumentations()).operations == resized.operations


@pytest.mark.parametrize("transform", ORIGINALS[3:-3], ids=repr)
def test_export_and_import_are_inverse(transform: Any) -> None:
    """The class of Albumentations comes back with its arguments; RandomCropNearBBox takes its box elsewhere there."""
    operation = imported(transform)
    exported = Recipe([operation]).to_albumentations()

    assert imported(exported.transforms[0]) == operation
    assert type(exported.transforms[0]) is type(transform)
