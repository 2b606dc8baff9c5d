"""Mosaic Streaming: MDS shards on the local disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = f"MDS shards with encoded bytes, StreamingDataLoader, shuffled by py1e; {augment.NOTE}"

_NUM_AHEAD = 2  # batches per worker
_NUM_SAMPLES = 1_000_000  # more than any comparison takes: the samples are repeated


def num_ahead(spec: Spec) -> int:
    """Number of batches that its workers prefetch."""
    return _NUM_AHEAD * spec.num_threads


class _Photos(StreamingDataset):  # type: ignore[misc]
    def __init__(self, spec: Spec, **options: Any) -> None:
        super().__init__(
            local=str(spec.folder),
            shuffle=True,
            shuffle_seed=spec.seed,
            batch_size=spec.batch_size,
            epoch_size=_NUM_SAMPLES,
            **options,
        )
        self._transform = Augment(spec.recipe, spec.dtype)

    def __getitem__(self, at: Any) -> Any:
        sample = super().__getitem__(at)
        return self._transform(sample["image"]), sample["label"]


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Write shards, then read and map in workers."""
    with MDSWriter(out=str(spec.folder), columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in zip(spec.files, spec.labels, strict=True):
            writer.write({"image": Path(path).read_bytes(), "label": label})
    loader = StreamingDataLoader(
        _Photos(spec),
        batch_size=spec.batch_size,
        num_workers=spec.num_threads,
        prefetch_factor=_NUM_AHEAD,
        drop_last=True,
    )
    for images, _ in loader:
        yield images.to(spec.device, non_blocking=True)
