"""decode="fast": large JPEGs that are shrunk a lot are decoded at a smaller size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dali_pipes import Execution, Loader
from dali_pipes.decode import jpeg_batch
from gpu_aug import CenterCrop, Operation, RandomResizedCrop, Recipe, Resize
from readers import open_dataset

NUM_IMAGES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, photos: list[Path]) -> Path:
    """Photographs of 1500 pixels and more, two of them stored lying on their side."""
    folder = tmp_path_factory.mktemp("large")
    for number, photo in enumerate(photos[:NUM_IMAGES]):
        exif = Image.Exif()
        exif[274] = 6 if number < 2 else 1
        size = (1800, 1504) if number == 1 else (1801, 1503)
        large = Image.open(photo).convert("RGB").resize(size, Image.Resampling.BICUBIC)
        large.save(folder / f"{number}.jpg", exif=exif, quality=90)
    return folder


def batch(
    folder: Path, decode: str, size: int, first: Operation | None = None
) -> NDArray[np.float64]:
    loader = Loader(
        open_dataset(folder),
        Recipe([first or Resize(size), CenterCrop(size)]),
        batch_size=NUM_IMAGES,
        device="cpu",
        decoder="cpu",
        execution=Execution(decode=decode),  # type: ignore[arg-type]
        dtype=torch.uint8,
        shuffle="none",
    )
    return np.asarray(next(iter(loader)).images.numpy(), np.float64)


@pytest.mark.parametrize("size", [300, 140, 70])
def test_differs_a_little(folder: Path, size: int) -> None:
    """Half, a quarter and an eighth of the size: 999 of 1000 values within 4/255, and not equal."""
    difference = np.abs(batch(folder, "fast", size) - batch(folder, "exact", size))
    assert 0 < difference.mean() < 1
    assert np.quantile(difference, 0.999) <= 4


@pytest.mark.parametrize("size", [pytest.param(140, marks=pytest.mark.long), 70])
def test_windows_may_begin_between_pixels(folder: Path, size: int) -> None:
    """A window that begins and ends anywhere stays where it is, to a fraction of a shrunk pixel.

    Along its edges shrunk pixels hold some of what lies outside.
    """
    crop = RandomResizedCrop(size, scale=(0.6, 0.9))
    difference = np.abs(batch(folder, "fast", size, crop) - batch(folder, "exact", size, crop))
    assert 0 < difference.mean() < 1
    assert np.quantile(difference[:, :, 1:-1, 1:-1], 0.999) <= 4
    assert np.quantile(difference, 0.999) <= 8


def test_without_a_margin_it_would_differ_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: decoding down to the wanted size at once is seen."""
    expected = batch(folder, "exact", 187)
    monkeypatch.setattr(jpeg_batch, "_FAST_MARGIN", 1.0)
    difference = np.abs(batch(folder, "fast", 187) - expected)
    assert np.quantile(difference, 0.999) > 4


def test_small_reductions_are_exact(folder: Path) -> None:
    """Where the crop is shrunk by less than 4 nothing changes."""
    np.testing.assert_array_equal(batch(folder, "fast", 400), batch(folder, "exact", 400))
