"""`apply`, `Recipe.transform()` and a Loader are three doors to one thing: the same draws give the same pixels, bit for bit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Loader
from gpu_aug import (
    Affine,
    ColorJitter,
    CutMix,
    GaussianBlur,
    HorizontalFlip,
    MixUp,
    Normalize,
    Perspective,
    RandomCrop,
    RandomErasing,
    RandomResizedCrop,
    Recipe,
    Resize,
    apply,
)
from readers import open_dataset

SEED, EPOCH = 7, 1
SIZES = [(36, 48), (50, 41), (36, 48), (64, 33), (40, 40), (33, 70), (48, 36), (90, 50)]

RECIPES = {
    "moves": Recipe([RandomCrop((20, 24)), HorizontalFlip()]),
    "pads": Recipe([RandomCrop((34, 46), padding=4), HorizontalFlip()]),
    "shifts": Recipe([RandomCrop((36, 48), padding=4, padding_mode="reflect"), HorizontalFlip()]),
    "resizes": Recipe([Resize((30, 26)), RandomErasing(1.0)]),
    "warps": Recipe([RandomResizedCrop(24), Affine(rotate=(-20, 20)), Perspective()]),
    "jitters": Recipe([RandomResizedCrop(24), HorizontalFlip(), ColorJitter(0.4, 0.4, 0.4, 0.1)]),
    "normalises": Recipe([RandomResizedCrop(24), HorizontalFlip(), Normalize()]),
    "blurs": Recipe([RandomResizedCrop(24), GaussianBlur(5), Normalize()]),
    "mixes": Recipe([RandomResizedCrop(24), MixUp(num_classes=8)]),
    "pastes": Recipe([RandomResizedCrop(24), CutMix(num_classes=8), Normalize()]),
}
ENGINES = ("fused", "kornia", "albumentations")


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]


@pytest.fixture(scope="module")
def folder(pictures: list[np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures in a lossless format, each of a class of its own."""
    root = tmp_path_factory.mktemp("pictures")
    for number, picture in enumerate(pictures):
        (root / f"{number}").mkdir()
        Image.fromarray(picture).save(root / f"{number}" / "a.png")
    return root


def loaded(folder: Path, recipe: Recipe, engine: str, *, seed: int = SEED) -> torch.Tensor:
    """The batch of all pictures in their order, as a Loader makes it."""
    options = {"decoder": "cpu", "device": "cpu", "engine": engine, "dtype": torch.float32}
    dataset = open_dataset(folder)
    with Loader(
        dataset, recipe, batch_size=len(SIZES), seed=seed, shuffle="none", **options
    ) as all_:
        all_.set_epoch(EPOCH)
        [batch] = all_
        assert batch.indices.tolist() == list(range(len(SIZES)))
        return batch.images.clone()


def applied(pictures: Sequence[np.ndarray], recipe: Recipe, engine: str) -> torch.Tensor:
    samples = [{"image": picture, "label": label} for label, picture in enumerate(pictures)]
    indices = range(len(pictures))
    results = apply(recipe, samples, engine=engine, seed=SEED, epoch=EPOCH, indices=indices)
    return torch.stack([result["image"] for result in results])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", RECIPES)
def test_batches_have_the_same_pixels(
    folder: Path, pictures: list[np.ndarray], name: str, engine: str
) -> None:
    recipe, indices = RECIPES[name], range(len(pictures))
    transform = recipe.transform(seed=SEED, engine=engine)
    transform.set_epoch(EPOCH)
    mixes = recipe.group > 1
    batch = transform(pictures, list(indices) if mixes else None, indices=indices)
    wanted = loaded(folder, recipe, engine)
    assert torch.equal(applied(pictures, recipe, engine), wanted)
    assert torch.equal(batch[0] if mixes else batch, wanted)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", [name for name in RECIPES if RECIPES[name].group == 1])
def test_single_images_have_the_pixels_of_batches(
    pictures: list[np.ndarray], name: str, engine: str
) -> None:
    """Floats stay floats where they are normalised; else they are rounded to the type that was given."""
    recipe = RECIPES[name]
    transform = recipe.transform(seed=SEED, engine=engine)
    transform.set_epoch(EPOCH)
    for index, wanted in enumerate(applied(pictures, recipe, engine)):
        single = torch.from_numpy(transform(pictures[index], index=index)).permute(2, 0, 1)
        if single.dtype == torch.uint8:
            wanted = (wanted * 255).round().clamp(0, 255).to(torch.uint8)
        assert torch.equal(single, wanted)


@pytest.mark.parametrize("name", RECIPES)
def test_another_seed_gives_other_pixels(
    folder: Path, pictures: list[np.ndarray], name: str
) -> None:
    """The negative control of the comparison."""
    recipe = RECIPES[name]
    assert not torch.equal(
        loaded(folder, recipe, "fused", seed=SEED + 1), applied(pictures, recipe, "fused")
    )
