"""LitData raw: the files as they are, fetched a batch at a time."""

from collections.abc import Iterator
from pathlib import Path

import litdata as ld
import torch
from torch.utils.data import DataLoader, RandomSampler

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = f"StreamingRawDataset on a local folder, in a DataLoader; {augment.NOTE}"

_NUM_AHEAD = 2  # batches per worker


def num_ahead(spec: Spec) -> int:
    """What its workers hold ready."""
    return _NUM_AHEAD * spec.num_threads


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Link the files into one folder, then read and map in workers."""
    photos = spec.folder / "photos"
    photos.mkdir()
    for number, name in enumerate(spec.files):
        (photos / f"{number:08d}{Path(name).suffix}").symlink_to(name)
    dataset = ld.StreamingRawDataset(
        str(photos),
        cache_dir=str(spec.folder / "cache"),
        transform=Augment(spec.recipe, spec.dtype),
    )
    loader = DataLoader(
        dataset,
        batch_size=spec.batch_size,
        sampler=RandomSampler(dataset, replacement=True, num_samples=10**9),
        num_workers=spec.num_threads,
        prefetch_factor=_NUM_AHEAD,
    )
    for images in loader:
        yield images.to(spec.device, non_blocking=True)
