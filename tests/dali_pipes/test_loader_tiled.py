"""Tiled JPEGs go through the loader like ordinary ones, only faster."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dali_pipes import Loader
from dali_pipes.decode.dali import feed
from dali_pipes.jpeg.tiling.add_restarts import add_restarts
from gpu_aug import CenterCrop, Normalize, RandomResizedCrop, Recipe, Views
from readers import open_dataset

RECIPE = Recipe([RandomResizedCrop(48, scale=(0.05, 0.4)), Normalize()])
NUM_IMAGES = 12


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, photos: list[Path]) -> tuple[Path, Path]:
    """The same photographs twice: ordinary, and tiled; every third one is stored lying on its side."""
    plain, tiled = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("tiled")
    for number, photo in enumerate(photos[:NUM_IMAGES]):
        exif = Image.Exif()
        exif[274] = 6 if number % 3 == 0 else 1
        file = plain / f"{number:02}.jpg"
        Image.open(photo).convert("RGB").resize((400, 300)).save(file, exif=exif, quality=90)
        (tiled / file.name).write_bytes(add_restarts(file.read_bytes()))
    return plain, tiled


def batch(folder: Path, decoder: str, recipe: Recipe | Views = RECIPE) -> tuple[torch.Tensor, ...]:
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
    plain, tiled = folders
    views = Views([RECIPE, Recipe([CenterCrop(32)])])
    for recipe in (RECIPE, views):
        expected, got = batch(plain, decoder, recipe), batch(tiled, decoder, recipe)
        for one, other in zip(expected, got, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.needs_dali
def test_dali_gets_parts_of_files(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DALI is given of tiled files is less than half of their bytes."""
    given: list[int] = []
    cut_tiles = feed.cut_tiles

    def count(*arguments: object) -> object:
        data, origins = cut_tiles(*arguments)  # type: ignore[arg-type]
        given.append(sum(map(len, data)))
        return data, origins

    monkeypatch.setattr(feed, "cut_tiles", count)
    plain, tiled = folders
    batch(plain, "dali")
    batch(tiled, "dali")

    assert given[1] < given[0] / 2


def test_a_run_goes_on_with_the_tiled_copy(folders: tuple[Path, Path]) -> None:
    """The order and the draws do not depend on the tiling."""
    first, second = (next(iter(Loader(open_dataset(f), RECIPE, batch_size=4))) for f in folders)
    np.testing.assert_array_equal(first.indices, second.indices)
    torch.testing.assert_close(first.images, second.images, rtol=0, atol=0)
