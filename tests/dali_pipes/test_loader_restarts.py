"""JPEGs with restart markers, as those of earlier `gpu-aug tile` runs, go through the loader like ordinary ones."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from dali_pipes import Loader
from gpu_aug import CenterCrop, Normalize, RandomResizedCrop, Recipe, Views
from readers import open_dataset

RECIPE = Recipe([RandomResizedCrop(48, scale=(0.05, 0.4)), Normalize()])
NUM_IMAGES = 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, photos: list[Path]) -> tuple[Path, Path]:
    """The same photographs twice: ordinary, and with restart markers; every third one is stored lying on its side."""
    plain, marked = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("marked")
    for number, photo in enumerate(photos[:NUM_IMAGES]):
        exif = Image.Exif()
        exif[274] = 6 if number % 3 == 0 else 1
        picture = Image.open(photo).convert("RGB").resize((400, 300))
        for folder, more in ((plain, {}), (marked, {"restart_marker_blocks": 5})):
            picture.save(folder / f"{number:02}.jpg", exif=exif, quality=90, **more)
    return plain, marked


def views_of(
    folder: Path, decoder: str, recipe: Recipe | Views = RECIPE
) -> tuple[torch.Tensor, ...]:
    loader = Loader(
        open_dataset(folder),
        recipe,
        batch_size=NUM_IMAGES,
        device="cpu",
        decoder=decoder,  # type: ignore[arg-type]
        engine="albumentations",
        dtype=torch.float32,
    )
    with loader:
        return next(iter(loader)).views


@pytest.mark.parametrize("decoder", ["cpu", pytest.param("dali", marks=pytest.mark.needs_dali)])
def test_pixels_are_those_of_ordinary_files(folders: tuple[Path, Path], decoder: str) -> None:
    """Bit for bit, for one view and for two that share the decoded part."""
    plain, marked = folders
    views = Views([RECIPE, Recipe([CenterCrop(32)])])
    for recipe in (RECIPE, views):
        expected, got = views_of(plain, decoder, recipe), views_of(marked, decoder, recipe)
        for one, other in zip(expected, got, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)
