"""The transform of an imported pipeline returns what the pipeline returns: class, type, shape and range."""

import warnings
from typing import Any

import albumentations as A
import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as v1
from torchvision import tv_tensors
from torchvision.transforms import v2

from gpu_aug import Normalize, Recipe, RecipeError, Resize, TargetsError

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
PLANES = torch.from_numpy(PIXELS).permute(2, 0, 1).contiguous()
GIVEN = {
    "pillow": Image.fromarray(PIXELS),
    "array": PIXELS,
    "uint8": PLANES,
    "float": PLANES / 255,
    "tv_image": tv_tensors.Image(PLANES),
}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it is deprecated, and still in people's pipelines
    V2_TO_TENSOR = v2.ToTensor()
F32, U8 = torch.float32, torch.uint8
HALF = ([0.5] * 3, [0.2] * 3)

TORCHVISION: dict[str, tuple[list[Any], str]] = {
    "ToTensor": ([v1.CenterCrop(32), v1.ToTensor()], "pillow"),
    "ToTensor first": ([v1.ToTensor(), v1.CenterCrop(32)], "pillow array"),
    "ToTensor, Normalize": ([v1.CenterCrop(32), v1.ToTensor(), v1.Normalize(*HALF)], "pillow"),
    "PILToTensor": ([v1.CenterCrop(32), v1.PILToTensor()], "pillow"),
    "ConvertImageDtype": ([v1.CenterCrop(32), v1.ConvertImageDtype(F32)], "uint8 float"),
    "v2 ToTensor": ([V2_TO_TENSOR, v2.CenterCrop(32)], "pillow array uint8 float"),
    "ToImage": ([v2.ToImage(), v2.CenterCrop(32)], "pillow array uint8 float"),
    "no conversion": ([v2.CenterCrop(32)], "pillow uint8 float"),
    "ToDtype alone": ([v2.CenterCrop(32), v2.ToDtype(F32, scale=True)], "pillow uint8 float"),
    "ToDtype": ([v2.ToImage(), v2.CenterCrop(32), v2.ToDtype(F32, scale=True)], "pillow float"),
    **{
        f"{dtypes} after {before}": (
            [*steps, v2.CenterCrop(32), v2.ToDtype(dtypes, scale=True)],
            kinds,
        )
        for before, steps, kinds in (
            ("nothing", [], "pillow uint8 tv_image"),
            ("ToImage", [v2.ToImage()], "pillow array uint8 tv_image"),
            ("PILToTensor", [v2.PILToTensor()], "pillow uint8 tv_image"),
            ("ToTensor", [V2_TO_TENSOR], "pillow array uint8 tv_image"),
        )
        for dtypes in (
            {torch.Tensor: F32, "others": None},
            {tv_tensors.Image: F32, "others": None},
            {tv_tensors.Mask: torch.int64, "others": None},
            {tv_tensors.Mask: torch.int64, "others": F32},
            {tv_tensors.Image: None, "others": torch.float64},
        )
    },
    "ToDtype by class": (
        [v2.ToImage(), v2.CenterCrop(32), v2.ToDtype({tv_tensors.Image: F32}, scale=True)],
        "pillow array uint8",
    ),
    "unscaled": (
        [v2.ToImage(), v2.CenterCrop(32), v2.ToDtype(F32, scale=False)],
        "pillow array uint8",
    ),
    "unscaled, Normalize": (
        [v2.ToImage(), v2.ToDtype(F32, scale=False), v2.Normalize([123.7] * 3, [58.4] * 3)],
        "pillow array uint8",
    ),
    "doubles": ([v2.ToImage(), v2.CenterCrop(32), v2.ToDtype(torch.float64, True)], "uint8"),
    "uint8 in between": (
        [v2.ToImage(), v2.ToDtype(U8, scale=True), v2.CenterCrop(32), v2.ToDtype(F32, scale=True)],
        "pillow",
    ),
    "ToPureTensor": ([v2.ToImage(), v2.CenterCrop(32), v2.ToPureTensor()], "pillow array uint8"),
    "ToPILImage": ([v2.ToImage(), v2.CenterCrop(32), v2.ToPILImage()], "pillow array uint8"),
    "one channel": ([v2.Grayscale(1), v2.CenterCrop(32)], "pillow uint8 float"),
    "one channel, Normalize": (
        [v1.Grayscale(1), v1.ToTensor(), v1.Normalize([0.5], [0.2])],
        "pillow",
    ),
    "three again": ([v2.Grayscale(1), v2.RGB(), v2.CenterCrop(32)], "pillow uint8"),
    "class Image": ([v2.CenterCrop(32)], "tv_image"),
}

ALBUMENTATIONS: dict[str, list[Any]] = {
    "ToFloat": [A.CenterCrop(32, 32), A.ToFloat(max_value=255)],
    "ToTensorV2": [A.CenterCrop(32, 32), A.ToTensorV2()],
    "Normalize": [A.CenterCrop(32, 32), A.Normalize()],
    "Normalize, ToTensorV2": [A.CenterCrop(32, 32), A.Normalize(), A.ToTensorV2()],
    "Normalize by 1": [A.Normalize((123.7, 116.3, 103.5), (58.4, 57.1, 57.4), max_pixel_value=1.0)],
    "by its image": [A.Normalize(normalization="image")],
    "by its channels": [A.Normalize(normalization="image_per_channel"), A.ToTensorV2()],
    "by its range": [A.Normalize(normalization="min_max")],
    "there and back": [A.ToFloat(), A.CenterCrop(32, 32), A.FromFloat(dtype="uint8")],
    "one channel": [A.ToGray(num_output_channels=1, p=1)],
    "one plane": [A.ToGray(num_output_channels=1, p=1), A.ToTensorV2()],
}


def shown(image: Any) -> tuple[Any, ...]:
    if isinstance(image, Image.Image):
        return "pillow", image.mode, image.size
    return type(image), image.dtype, tuple(image.shape)


def numbers(image: Any) -> Any:
    return np.asarray(image, np.float64)


def check(ours: Any, theirs: Any) -> None:
    assert shown(ours) == shown(theirs)
    step = 1.0 if numbers(theirs).max() > 20 else 0.02  # of 0..255, or of [0, 1] and normalised
    np.testing.assert_allclose(numbers(ours), numbers(theirs), rtol=0, atol=step)


@pytest.mark.filterwarnings("ignore:scale was set to True but no dtype")  # torchvision's own
@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision(name: str) -> None:
    steps, kinds = TORCHVISION[name]
    pipeline = (
        v2 if type(steps[0]).__module__.startswith("torchvision.transforms.v2") else v1
    ).Compose(steps)
    transform = Recipe.from_torchvision(pipeline).transform(seed=0)
    for kind in kinds.split():
        check(transform(GIVEN[kind]), pipeline(GIVEN[kind]))
        check(transform({"image": GIVEN[kind]})["image"], pipeline(GIVEN[kind]))


@pytest.mark.parametrize("name", ALBUMENTATIONS)
def test_albumentations(name: str) -> None:
    pipeline = A.Compose(ALBUMENTATIONS[name])
    transform = Recipe.from_albumentations(pipeline).transform(seed=0)
    check(transform(PIXELS), pipeline(image=PIXELS)["image"])


def test_batches_have_the_type_that_is_asked_for() -> None:
    steps = [v2.ToImage(), v2.CenterCrop(32), v2.Grayscale(1), v2.ToDtype(U8, scale=True)]
    batch = Recipe.from_torchvision(steps).transform()([PIXELS, PIXELS])
    assert (batch.dtype, batch.shape) == (U8, (2, 1, 32, 32))


def test_floats_in_a_pipeline_that_does_not_divide_are_refused() -> None:
    steps = [v2.ToDtype(F32, scale=False), v2.Normalize([123.7] * 3, [58.4] * 3)]
    transform = Recipe.from_torchvision(steps).transform()
    with pytest.raises(TargetsError, match="got tensor of float32: give uint8"):
        transform(GIVEN["float"])


def test_the_output_is_kept_in_files_and_in_no_fingerprint(tmp_path: Any) -> None:
    recipe = Recipe.from_torchvision([v1.CenterCrop(32), v1.ToTensor()])
    for name in ("recipe.yaml", "recipe.json"):
        recipe.save(tmp_path / name)
        assert Recipe.load(tmp_path / name).output == recipe.output == ("ToTensor",)
    plain = Recipe(recipe.operations)
    assert (recipe, recipe.fingerprint) == (plain, plain.fingerprint)
    assert "output" not in plain.to_dict()
    (tmp_path / "wrong.yaml").write_text("version: 1\noutput: [Tensor]\noperations: [Grayscale]\n")
    with pytest.raises(
        RecipeError, match=r"wrong.yaml:.*output of a recipe must be a list of ToTensor"
    ):
        Recipe.load(tmp_path / "wrong.yaml")


@pytest.mark.parametrize(
    "step",
    [
        A.Sequential([A.ToFloat()], p=0.5),
        A.OneOf([A.ToFloat(), A.NoOp()]),
        A.OneOf([A.ToTensorV2(), A.NoOp()]),
        A.ToTensorV2(p=0.5),
        A.ToFloat(p=0.5),
        v2.RandomApply([v2.ToImage()]),
    ],
)
def test_a_type_by_chance_is_refused(step: Any) -> None:
    of_torchvision = isinstance(step, v2.RandomApply)
    take = Recipe.from_torchvision if of_torchvision else Recipe.from_albumentations
    with pytest.raises(RecipeError, match="it changes the type of some images only"):
        take((v2 if of_torchvision else A).Compose([step]))


IMAGENET = ([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])
DIVIDED = r"write Normalize\(mean=\(0.485, 0.456, 0.406\), std=\(0.229, 0.224, 0.225\)\)"
TOO_LARGE = {
    "a transform": lambda: Recipe([Resize((8, 8)), Normalize(*IMAGENET)]).transform(),
    "torchvision": lambda: Recipe.from_torchvision([v1.ToTensor(), v1.Normalize(*IMAGENET)]),
    "v2": lambda: Recipe.from_torchvision([v2.ToDtype(F32, scale=True), v2.Normalize(*IMAGENET)]),
    "floats": lambda: Recipe.from_albumentations(
        A.Compose([A.ToFloat(), A.Normalize(*IMAGENET, max_pixel_value=1.0)])
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_means_of_0_to_255_are_refused_with_their_division(name: str) -> None:
    with pytest.raises(RecipeError, match=DIVIDED):
        TOO_LARGE[name]()


def test_a_large_std_alone_is_refused_and_floats_of_any_range_are_not() -> None:
    from gpu_aug import apply

    recipe = Recipe([Resize((8, 8)), Normalize(0.0, 255.0)])
    with pytest.raises(RecipeError, match=r"write Normalize\(mean=\(0, 0, 0\), std=\(1, 1, 1\)\)"):
        apply(recipe, [{"image": PIXELS}])
    image = PIXELS.astype(np.float32)
    [result] = apply(recipe, [{"image": image}], depth="float32")
    assert 0.2 < result["image"].mean() < 0.8


def test_label_fields_are_reported() -> None:
    from gpu_aug.convert import convert

    params = A.BboxParams(format="coco", label_fields=["classes"])
    _, lines = convert(A.Compose([A.HorizontalFlip()], bbox_params=params))
    assert any("give 'classes' as box_labels" in line.note for line in lines)
