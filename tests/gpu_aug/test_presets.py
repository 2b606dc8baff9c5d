"""Presets: what is in them, and that both engines carry them out."""

import numpy as np
import pytest
import torch

from gpu_aug import (
    PRESETS,
    ColorJitter,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Normalize,
    OneOf,
    RandomCrop,
    RandomResizedCrop,
    Recipe,
    RecipeError,
    Solarize,
    Views,
)
from gpu_aug.presets import three_augment
from tests.support.engines import ENGINES, noise, render

SMALL = {
    "dino": {"size": 48, "local_size": 24, "num_local": 2},
    "detection": {"size": 64},
    "segmentation": {"size": 48, "base_size": 60},
    "video_train": {"size": 32, "shorter": (36, 44)},
}


def recipes(made: Recipe | Views) -> tuple[Recipe, ...]:
    return made.recipes if isinstance(made, Views) else (made,)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_on_both_engines(name):
    """At a small size, the engines agree on images that come from decoding."""
    made = Recipe.preset(name, **SMALL.get(name, {"size": 48}))
    for recipe in {one.fingerprint: one for one in recipes(made)}.values():
        draws = recipe.draw(0, 0, np.arange(4), np.tile([[70, 90]], (4, 1)))
        images = noise(4, recipe.decode_size)
        results = torch.stack([render(engine, recipe, images, draws) for engine in ENGINES])
        assert not results.isnan().any()
        # Normalize divides by 0.22: 0.3 / 255 is 0.07 of a step before it.
        assert (results[0] - results[1]).abs().max() * 255 < 0.3


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_a_file(name):
    """Plain values give the preset back."""
    made = Recipe.preset(name)

    assert type(made).from_dict(made.to_dict()) == made


def test_dino_blurs_and_solarizes_as_published():
    """Blur on 100, 10 and 50 %, solarisation on 20 % of the second global view alone."""
    views = Recipe.preset("dino")

    def chances(recipe: Recipe, kind: type) -> list[float]:
        return [operation.p for operation in recipe.operations if isinstance(operation, kind)]

    assert len(views) == 10
    blurs = [chances(recipe, GaussianBlur) for recipe in views.recipes]
    assert blurs == [[1.0], [0.1], *[[0.5]] * 8]
    assert [chances(r, Solarize) for r in views.recipes] == [[], [0.2], *[[]] * 8]
    assert [r.size for r in views.recipes] == [(224, 224)] * 2 + [(96, 96)] * 8
    scales = [recipe.operations[0].scale for recipe in views.recipes]
    assert scales == [(0.4, 1.0)] * 2 + [(0.05, 0.4)] * 8


def test_simclr_scales_its_jitter():
    """Strength s means 0.8 s, 0.8 s, 0.8 s and 0.2 s on 80 % of the images."""
    views = Recipe.preset("simclr", strength=0.5)

    assert views.recipes[0] == views.recipes[1]
    assert views.recipes[0].operations[2] == ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8)


def test_deit3_does_one_of_three():
    """Each image is gray, solarized or blurred, a third each."""
    recipe = Recipe.preset("deit3")
    assert recipe.operations == (
        RandomResizedCrop(224),
        HorizontalFlip(),
        three_augment(),
        ColorJitter(0.3, 0.3, 0.3),
        Normalize(),
    )
    assert three_augment() == OneOf(
        [Grayscale(1.0), Solarize(0.5, p=1.0), GaussianBlur(13, (0.1, 2.0))]
    )
    draws = recipe.draw(0, 0, np.arange(3000), np.tile([[300, 400]], (3000, 1)))
    gates = np.stack([params["apply"] for params in draws.params[1:4]])
    assert (gates.sum(axis=0) == 1).all()
    assert (abs(gates.mean(axis=1) - 1 / 3) < 0.04).all()
    assert Recipe.preset("deit3", simple_crop=True).operations[1] == RandomCrop(
        224, padding=4, padding_mode="reflect"
    )


def test_masks_of_segmentation_are_ignored_beside_the_image():
    """Their padding has the value that losses ignore."""
    assert Recipe.preset("segmentation").operations[1].fill_mask == 255


def test_an_option_that_a_preset_lacks_is_refused():
    """The error lists the options that there are."""
    with pytest.raises(
        RecipeError, match=r"deit3: .*'sise'; it takes size, and by name simple_crop"
    ):
        Recipe.preset("deit3", sise=96)
    assert Recipe.preset("imagenet_train", size=96).size == (96, 96)
