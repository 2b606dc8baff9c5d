"""The pipeline of train_cifar.py as it is written with torchvision, for comparison."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, default_collate


def torchvision_images(
    folders: Sequence[Path],
    batch_size: int,
    seed: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> list[DataLoader[Any]]:
    """Return torchvision's loaders of 32 x 32 pictures: crops and flips for training, neither for the test."""
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    last = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
    crop = v2.Compose([v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(), *last])
    train, test = ImageFolder(str(folders[0]), crop), ImageFolder(str(folders[1]), v2.Compose(last))
    return [loader_of(train, batch_size, seed), loader_of(test, 500, seed, is_training=False)]


def loader_of(
    dataset: Dataset[Any],
    batch_size: int,
    seed: int,
    *,
    is_training: bool = True,
    collate: Callable[[list[Any]], SimpleNamespace] | None = None,
) -> DataLoader[Any]:
    """Return a DataLoader with two workers; its batches have `images` and `labels` unless `collate` makes others."""
    return DataLoader(
        dataset,
        batch_size,
        shuffle=is_training,
        drop_last=is_training,
        num_workers=2,
        persistent_workers=True,
        collate_fn=collate or _images_and_labels,
        generator=torch.Generator().manual_seed(seed),
    )


def _images_and_labels(samples: list[Any]) -> SimpleNamespace:
    images, labels = default_collate(samples)
    return SimpleNamespace(images=images, labels=labels)
