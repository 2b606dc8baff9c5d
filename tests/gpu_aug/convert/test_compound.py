"""What torchvision's weights and timm put into pipelines is imported as what it stands for."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import transforms as v1
from torchvision.models import ResNet50_Weights
from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights
from torchvision.models.segmentation import FCN_ResNet50_Weights
from torchvision.models.video import R3D_18_Weights
from torchvision.transforms import v2

from gpu_aug import CenterCrop, Identity, Normalize, Recipe, RecipeError, apply
from gpu_aug.convert import convert, from_torchvision

BOTH = (v1.InterpolationMode.BILINEAR, v1.InterpolationMode.BICUBIC)


def timm(name: str, module: str = "transforms", **attributes: Any) -> Any:
    """A transform as timm 1.0.31 makes it: its class is called so, and has these attributes."""

    def call(_: object, image: Any) -> Any:
        return image

    cls = type(name, (SimpleNamespace,), {"__module__": f"timm.data.{module}", "__call__": call})
    return cls(**attributes)


@pytest.mark.parametrize(
    "preset",
    [
        ResNet50_Weights.IMAGENET1K_V2.transforms(),
        FasterRCNN_ResNet50_FPN_Weights.DEFAULT.transforms(),
        FCN_ResNet50_Weights.DEFAULT.transforms(),
        R3D_18_Weights.DEFAULT.transforms(),
    ],
    ids=lambda preset: type(preset).__name__,
)
def test_the_transforms_of_weights_make_the_same_images(preset):
    """One preset alone is a pipeline: pixels are those that it makes of a float image."""
    image = np.random.default_rng(0).random((280, 300, 3), np.float32)
    planes = torch.from_numpy(image).permute(2, 0, 1)
    is_video = type(preset).__name__ == "VideoClassification"
    theirs = preset(planes[None])[:, 0] if is_video else preset(planes)

    recipe = from_torchvision(preset)
    result = apply(recipe, [{"image": image}])[0]["image"]

    torch.testing.assert_close(result, theirs, atol=1e-4, rtol=0)


def test_a_preset_stands_in_a_pipeline():
    """The lines of the report say what it stands for."""
    preset = ResNet50_Weights.IMAGENET1K_V1.transforms()

    recipe, lines = convert(v1.Compose([v1.RandomHorizontalFlip(), preset]))

    resize, crop = v1.Resize(256), v1.CenterCrop(224)
    normalize = v1.Normalize(preset.mean, preset.std)
    steps = [v1.RandomHorizontalFlip(), resize, crop, v1.ToTensor(), normalize]
    assert recipe == from_torchvision(steps)
    assert lines[1].path == "Compose > ImageClassification > Resize"


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (
            timm(
                "RandomResizedCropAndInterpolation",
                size=(32, 48),
                scale=(0.1, 1.0),
                ratio=(0.8, 1.2),
                interpolation=BOTH[1],
            ),
            [v1.RandomResizedCrop((32, 48), (0.1, 1.0), (0.8, 1.2), BOTH[1])],
        ),
        (
            timm(
                "RandomResizedCropAndInterpolation",
                size=(32, 32),
                scale=(0.08, 1.0),
                ratio=(0.75, 4 / 3),
                interpolation=BOTH,
            ),
            [v1.RandomChoice([v1.RandomResizedCrop(32, interpolation=mode) for mode in BOTH])],
        ),
        (timm("MaybeToTensor"), [v1.ToTensor()]),
        (timm("MaybePILToTensor"), [v1.PILToTensor()]),
        (timm("ToNumpy"), [v1.PILToTensor()]),
        (
            timm(
                "RandomErasing",
                "random_erasing",
                probability=0.25,
                min_area=0.02,
                max_area=0.25,
                log_aspect_ratio=(0.0, 0.0),
                min_count=1,
                max_count=1,
                rand_color=False,
                per_pixel=True,
            ),
            [v1.ToTensor(), v1.RandomErasing(0.25, (0.02, 0.25), (1.0, 1.0), "random")],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_transforms_of_timm_are_those_of_torchvision(theirs, same):
    """They are told by the name of their class and module; timm is not needed."""
    before = same[:1] if isinstance(same[0], v1.ToTensor) and len(same) > 1 else []

    assert from_torchvision([*before, theirs]) == from_torchvision(same)


OPERATION = SimpleNamespace(magnitude=9)


@pytest.mark.parametrize(
    ("theirs", "nearest"),
    [
        (
            timm("RandAugment", "auto_augment", num_layers=2, ops=[OPERATION]),
            r"gpu_aug\.RandAugment\(2, 27\)",
        ),
        (timm("AutoAugment", "auto_augment"), r"gpu_aug\.AutoAugment\(\)"),
        (timm("AugMixAugment", "auto_augment"), r"gpu_aug\.AugMix\(\)"),
        ("rand-m9-mstd0.5-inc1", r"gpu_aug\.RandAugment\(2, 27\)"),
        ("rand-m7-n3", r"gpu_aug\.RandAugment\(3, 21\)"),
        ("augmix-m5-w4-d2", r"gpu_aug\.AugMix\(\)"),
    ],
    ids=str,
)
def test_policies_of_timm_are_refused_with_the_nearest(theirs, nearest):
    """Their law is another; m9 of 10 is bin 27 of 0 to 30 here."""
    with pytest.raises(RecipeError, match=f"timm carries out each .*nearest: {nearest}"):
        from_torchvision(theirs)
    if isinstance(theirs, str):
        for ask in (convert, lambda policy: Recipe([CenterCrop(8), policy])):
            with pytest.raises(RecipeError, match=nearest):
                ask(theirs)


@pytest.mark.parametrize("module", [v1, v2])
def test_gray_images_keep_three_channels_and_the_report_says_so(module):
    """Each of them is torchvision's one; a mean of one number follows."""
    steps = [module.Grayscale(1), module.Normalize((0.5,), (0.25,))]
    image = np.random.default_rng(1).random((8, 8, 3), np.float32)
    theirs = module.Compose(steps)(torch.from_numpy(image).permute(2, 0, 1))

    recipe, lines = convert([v1.ToTensor(), *steps])
    result = apply(recipe, [{"image": image}])[0]["image"]

    torch.testing.assert_close(result, theirs.expand(3, 8, 8), atol=1e-2, rtol=0)
    assert (lines[1].outcome, "images[:, :1]" in lines[1].note) == ("changed", True)


def test_a_mean_that_is_a_tensor_is_read_as_it_was_written():
    """Timm keeps means as float32 tensors, in which 0.485 is 0.48500001."""
    transform = v1.Normalize(
        torch.tensor((0.485, 0.456, 0.406)), torch.tensor((0.229, 0.224, 0.225))
    )

    assert from_torchvision(transform).operations == (Normalize(),)
    assert from_torchvision(v1.ToTensor()).operations == (Identity(),)


def to_rgb(image):
    """As scripts have it."""
    return image.convert("RGB")


@pytest.mark.parametrize("lambda_", [lambda function: function, v1.Lambda, v2.Lambda])
def test_functions_that_make_rgb_are_nothing(lambda_):
    """Every image has three channels; another mode, or a second step, is a function that nobody can look into."""
    flip = v2.RandomHorizontalFlip()
    for function in (to_rgb, lambda im: im.convert("RGB")):
        assert from_torchvision(v1.Compose([lambda_(function), flip])) == from_torchvision(flip)
    for function in (lambda im: im.convert("L"), lambda im: im.convert("RGB").rotate(90)):
        with pytest.raises(RecipeError, match="cannot look into"):
            from_torchvision(v1.Compose([lambda_(function), flip]))
