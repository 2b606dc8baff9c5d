"""Pipelines as people write them mean the same here, in corners where that is easily lost."""

import warnings

import albumentations as A
import cv2
import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from gpu_aug import Recipe, RecipeError, apply

ENGINES = ("kornia", "albumentations", "fused")


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        for package in ("albumentations", "torchvision"):
            warnings.filterwarnings("ignore", module=rf"{package}\.")
        yield


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)


def ours(recipe: Recipe, image: np.ndarray, engine: str) -> np.ndarray:
    """The first of three results, [H, W, 3] in 1/255: with one alone strides are others."""
    result = apply(recipe, [{"image": image}] * 3, engine=engine, seed=0)[0]["image"]
    return result.permute(1, 2, 0).numpy() * 255


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "bicubic",
    [
        A.Resize(70, 90, interpolation=cv2.INTER_CUBIC),
        A.Rotate((30, 30), interpolation=cv2.INTER_CUBIC, p=1),
    ],
)
def test_bicubic_values_stay_in_8_bits(engine, bicubic, noise):
    """What follows bicubic resampling of 8-bit images sees values from 0 to 255, as in Albumentations."""
    pipeline = A.Compose([bicubic, A.InvertImg(p=1)])

    result = ours(Recipe.from_albumentations(pipeline), noise, engine)

    assert np.abs(result - pipeline(image=noise)["image"]).max() < 1.5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "steps",
    [
        [A.Resize(70, 90, interpolation=cv2.INTER_CUBIC), A.RandomGamma((50, 50), p=1)],
        [A.ElasticTransform(alpha=50, sigma=5, interpolation=cv2.INTER_NEAREST, p=1)],
    ],
    ids=["gamma after bicubic", "elastic of the nearest pixel"],
)
def test_results_are_numbers(engine, steps, noise):
    """No value is below 0 where a power is taken of it; displacements of every layout in memory are taken."""
    result = ours(Recipe.from_albumentations(A.Compose(steps)), noise, engine)

    assert np.isfinite(result).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_bicubic_of_torchvision_on_8_bits(engine, noise):
    """Torchvision cuts bicubic values of 8-bit tensors to 0 to 255 as well, here across stripes.

    Where edges cross it cuts twice, after each axis.
    """
    noise[:] = noise[:1]
    pipeline = v2.Compose([v2.ToImage(), v2.Resize((70, 90), v2.InterpolationMode.BICUBIC)])

    result = ours(Recipe.from_torchvision(pipeline), noise, engine)

    assert np.abs(result - pipeline(noise).permute(1, 2, 0).numpy()).max() < 1.5


@pytest.mark.parametrize("engine", ENGINES)
def test_bicubic_of_torchvision_on_floats(engine, noise):
    """On floats it keeps values beyond [0, 1], and so does the recipe."""
    resize = v2.Resize((70, 90), v2.InterpolationMode.BICUBIC)
    pipeline = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), resize])

    result = ours(Recipe.from_torchvision(pipeline), noise, engine)

    expected = pipeline(noise).permute(1, 2, 0).numpy() * 255
    assert expected.min() < -1
    assert np.abs(result - expected).max() < 0.1


def test_gaussian_sharpening_of_8_bits_is_refused():
    """Its difference wraps around on 8-bit images, which floats would not show."""
    sharpen = A.Sharpen(method="gaussian", p=1)

    with pytest.raises(RecipeError, match=r"Compose > Sharpen: .*wraps around.*UnsharpMask"):
        Recipe.from_albumentations(A.Compose([sharpen]))
    assert Recipe.from_albumentations(A.Compose([A.ToFloat(max_value=255), sharpen]))


def test_noise_erased_into_8_bits_is_refused():
    """Normal noise has no place between 0 and 255."""
    erase = v2.RandomErasing(value="random")
    to_float = v2.ToDtype(torch.float32, scale=True)

    with pytest.raises(RecipeError, match=r"Compose > RandomErasing: .*after ToDtype"):
        Recipe.from_torchvision(v2.Compose([v2.ToImage(), erase, to_float]))
    assert Recipe.from_torchvision(v2.Compose([v2.ToImage(), to_float, erase]))


@pytest.mark.parametrize("engine", ENGINES)
def test_unscaled_floats_stay_unscaled(engine, noise):
    """A pipeline that ends with floats in 0 to 255 gives them."""
    pipeline = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=False)])

    result = ours(Recipe.from_torchvision(pipeline), noise, engine) / 255

    assert np.abs(result - noise).max() < 0.01


def test_a_channel_that_is_not_shifted_comes_back_from_a_file(tmp_path):
    """A.save writes -0.0 for a limit of 0, which is the same law."""
    pipeline = A.Compose([A.RGBShift(r_shift_limit=20, g_shift_limit=0, b_shift_limit=20)])
    A.save(pipeline, tmp_path / "pipeline.json")

    loaded = Recipe.from_albumentations(tmp_path / "pipeline.json")

    assert loaded.fingerprint == Recipe.from_albumentations(pipeline).fingerprint
