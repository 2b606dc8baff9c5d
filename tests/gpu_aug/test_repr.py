"""What is printed of datasets, loaders and batches: one line that tells them apart, and no address."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dali_pipes import Loader
from gpu_aug import HorizontalFlip, RandomResizedCrop, Recipe
from gpu_aug.views import Views
from readers import mix, open_dataset
from readers.datasets.dataset import IndexedDataset
from tests.support.adapters import MemoryDataset
from tests.support.small import make_small

RECIPE = Recipe([RandomResizedCrop(8), HorizontalFlip()])


@pytest.fixture
def folder(tmp_path: Path, jpeg: Callable[..., bytes]) -> IndexedDataset:
    """Six images of two classes."""
    for number in range(6):
        place = tmp_path / f"class{number % 2}" / f"{number}.jpg"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(jpeg(20, 24, seed=number))
    found = open_dataset(tmp_path)
    assert isinstance(found, IndexedDataset)
    return found


def test_datasets(folder: IndexedDataset, jpeg: Callable[..., bytes]) -> None:
    """Kind, samples and classes, of selections and mixtures with what they are taken from."""
    assert repr(folder) == "FolderDataset(6 samples, 2 classes)"
    assert repr(folder.take(1)) == "Subset(1 sample of FolderDataset(6 samples, 2 classes))"
    assert repr(folder.balanced(length=10)) == f"Balanced({folder!r}, 10 samples an epoch)"
    assert repr(mix([folder, folder])) == f"Mixture(12 samples: {folder!r}, {folder!r})"
    several = repr(mix([make_small(jpeg, 2)] * 5, weights=[1, 1, 1, 1, 4]))
    assert several.endswith("and 2 more, weights=0.125, 0.125, 0.125, ...)")


def test_loaders(folder: IndexedDataset, jpeg: Callable[..., bytes]) -> None:
    """What is loaded, how, and where; also of datasets that say nothing of themselves."""
    loader = Loader(folder, RECIPE, batch_size=4, device="cpu", decoder="cpu")
    assert repr(loader) == (
        "Loader(FolderDataset(6 samples, 2 classes), [RandomResizedCrop, HorizontalFlip], batch_size=4, "
        "shuffle='global', last_batch='drop', epoch=0, cpu+fused on cpu)"
    )
    loader.steps = replace(loader.steps, batch_size=2, last_batch="partial")
    assert "batch_size=2, shuffle='global', last_batch='partial'" in repr(loader)
    plain = MemoryDataset([jpeg(20, 24)], 1000)
    views = Loader(plain, Views([RECIPE, RECIPE]), batch_size=4, device="cpu", decoder="cpu")
    assert "Loader(MemoryDataset of 1,000 samples, [2 views, first RandomResizedCrop" in repr(views)


def test_batches(folder: IndexedDataset) -> None:
    """Shapes and no pixels."""
    batch = Loader(folder, RECIPE, batch_size=4, device="cpu", decoder="cpu").peek()
    assert repr(batch) == "Batch(images=float32 [4, 3, 8, 8] on cpu, valid=4)"
