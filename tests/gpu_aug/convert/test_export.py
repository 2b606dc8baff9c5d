"""Recipes as pipelines of Albumentations and Kornia."""

import warnings

import albumentations as A
import kornia.augmentation as K
import pytest
import torch

from gpu_aug import (
    CenterCrop,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Invert,
    KorniaModule,
    Normalize,
    OneOf,
    RandomApply,
    RandomErasing,
    RandomOrder,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Resize,
    SomeOf,
    VerticalFlip,
)
from gpu_aug.convert import convert
from gpu_aug.ops.combine import SomeOfRepeated
from gpu_aug.ops.geometric.flips import Identity
from gpu_aug.targets.targets import BoxParams, KeypointParams
from tests.gpu_aug.convert.test_convert import build_albumentations
from tests.support.engines import noise, planar, render
from tests.support.pipelines import ALBUMENTATIONS

HF, VF = HorizontalFlip, VerticalFlip


@pytest.mark.parametrize(
    "operations",
    [
        [HF(0.3), VF(0.4)],
        [RandomApply([HF(0.3), VF(0.4)], 0.5)],
        [OneOf([HF(1.0), VF(1.0)], weights=(0.3, 0.4), p=0.9)],
        [OneOf([HF(0.3), VF(1.0), RandomApply([HF(0.2), VF(1.0)], 0.4)])],
        [OneOf([SomeOf([HF(0.3), VF(0.4)], 1, p=0.5), OneOf([HF(1.0), VF(0.5)], p=0.7)])],
        [SomeOf([HF(0.3), VF(0.4), Identity()], 2, p=0.8)],
        [SomeOfRepeated([HF(0.3), VF(0.4)], 3)],
        [RandomOrder([HF(0.3), VF(0.4)])],
        [RandomOrder([HF(0.3), RandomApply([VF(0.4), HF(0.5)], 0.1)], n=1, p=0.5)],
    ],
)
def test_albumentations_and_back(operations):
    """What is exported is imported as the same recipe, from the object and from its description."""
    recipe = Recipe(
        operations,
        boxes=BoxParams("cxcywh", True, min_visibility=0.2, shrink_in_holes=True),
        keypoints=KeypointParams(pixel_index=True, drop_in_holes=True, flip_pairs=()),
    )
    exported = recipe.to_albumentations()

    assert isinstance(exported, A.Compose)
    for source in (exported, exported.to_dict()):
        assert Recipe.from_albumentations(source) == recipe


@pytest.mark.parametrize("case", ALBUMENTATIONS, ids=lambda case: f"{case[0]}-{'-'.join(case[1])}")
def test_what_is_imported_is_exported_or_refused_by_name(case):
    """An imported transform goes back, or the error names it; what goes back comes again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transform = build_albumentations(*case)
        recipe, lines = convert(A.Compose([transform, A.HorizontalFlip()]))
        if recipe is None:
            assert [line.outcome for line in lines] == ["refused", "kept"]
            return
        try:
            exported = recipe.to_albumentations()
        except RecipeError as error:
            assert f"Recipe > {type(recipe.operations[0]).__name__}" in str(error)  # noqa: PT017
            return
        assert Recipe.from_albumentations(exported) == recipe


def test_what_albumentations_lacks_is_refused_by_name():
    """All are listed, with their reason and what comes nearest."""
    recipe = Recipe(
        [OneOf([GaussianBlur(3), HF()]), SomeOf([HF(), VF()], (1, 2))], keypoints=KeypointParams()
    )
    with pytest.raises(RecipeError) as caught:
        recipe.to_albumentations()

    lines = str(caught.value).splitlines()[1:]
    assert lines[0].startswith("  Recipe > OneOf > GaussianBlur: Albumentations has no transform")
    assert "Recipe > SomeOf: Albumentations does a fixed number of them, got n=(1, 2)" in lines[1]
    assert "counts keypoints in pixels" in lines[2]


def test_a_difference_is_named():
    """The nearest transform, and the field in which it differs."""
    with pytest.raises(
        RecipeError, match=r"nearest: RandomResizedCrop, where .*antialias is False"
    ):
        Recipe([RandomResizedCrop(32)]).to_albumentations()


KORNIA = [
    HF(1.0),
    VF(1.0),
    Invert(1.0),
    Grayscale(1.0),
    GaussianBlur(5, (1.2, 1.2)),
    GaussianBlur((3, 7), (1.2, 1.2)),
    Normalize(),
    Resize((20, 50), antialias=False),
    ColorJitter((0.7, 0.7)),
    ColorJitter(saturation=(0.2, 0.2)),
    ColorJitter(contrast=(1.3, 1.3)),
    ColorJitter(hue=(0.2, 0.2)),
]


@pytest.mark.parametrize("operation", KORNIA, ids=lambda operation: type(operation).__name__)
def test_kornia_makes_the_same_pixels(operation):
    """Without chance the exported pipeline gives what the engine gives."""
    recipe = Recipe([CenterCrop((31, 40)), HF(0.0), operation])
    images = noise(2, (31, 40))
    ours = render("albumentations", recipe, images)

    exported = Recipe([operation]).to_kornia()
    theirs = exported(planar(images))
    assert isinstance(exported, K.AugmentationSequential)
    assert (ours - theirs).abs().max() < 0.02 / 255 + operation.tolerance / 255


def test_kornia_draws_by_the_same_law():
    """Gates and factors have the ends and the shares of the recipe."""
    recipe = Recipe([HF(0.3), ColorJitter(0.4, hue=0.1, p=0.8), GaussianBlur(5, (0.5, 1.5), p=0.6)])
    torch.manual_seed(0)
    flip, jitter, blur = recipe.to_kornia().children()
    shape = torch.Size([4000, 3, 8, 8])
    drawn = [module.forward_parameters(shape) for module in (flip, jitter, blur)]

    for params, p in zip(drawn, (0.3, 0.8, 0.6), strict=True):
        assert params["batch_prob"].mean().item() == pytest.approx(p, abs=0.03)
    for values, low, high in (
        (drawn[1]["brightness_factor"], 0.6, 1.4),
        (drawn[1]["hue_factor"], -0.1, 0.1),
        (drawn[2]["sigma"], 0.5, 1.5),
    ):
        assert low <= values.min() <= values.max() <= high
        assert values.mean().item() == pytest.approx((low + high) / 2, abs=0.03 * (high - low))


def test_modules_of_the_user_go_back():
    """A Kornia module comes out as it went in."""
    module = K.RandomGamma((0.5, 1.5))

    assert next(iter(Recipe([KorniaModule(module)]).to_kornia().children())) is module


def test_what_kornia_lacks_is_refused_by_name():
    """Choices, crops and erasing follow other laws there."""
    recipe = Recipe([RandomResizedCrop(32), OneOf([HF(), VF()]), RandomErasing(), HF()])
    with pytest.raises(RecipeError) as caught:
        recipe.to_kornia()

    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == [
        "  Recipe > RandomResizedCrop", "  Recipe > OneOf", "  Recipe > RandomErasing",
    ]  # fmt: skip
    assert "choose once for a whole batch" in lines[2]
