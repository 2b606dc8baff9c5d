"""LitData: chunks made by ``optimize``, streamed again and again."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import litdata as ld
import torch

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = (
    "chunks with encoded bytes, shuffled, ParallelStreamingDataset so that no epoch ends; "
    f"{augment.NOTE}"
)

_NUM_AHEAD = 2  # batches per worker


def num_ahead(spec: Spec) -> int:
    """Number of batches that its workers prefetch."""
    return _NUM_AHEAD * spec.num_threads


class _Photos(ld.StreamingDataset):  # type: ignore[misc]
    def __init__(self, spec: Spec, chunks: Path) -> None:
        super().__init__(str(chunks), shuffle=True, drop_last=False, seed=spec.seed)
        self._transform = Augment(spec.recipe, spec.dtype)

    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return self._transform(sample["image"]), sample["label"]


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Write chunks, then read and map in workers."""
    chunks = spec.folder / "chunks"
    ld.optimize(
        partial(_sample, spec),
        list(range(len(spec.files))),
        str(chunks),
        chunk_bytes="8MB",
        num_workers=1,
        verbose=False,
    )
    dataset = ld.ParallelStreamingDataset([_Photos(spec, chunks)], length=float("inf"))
    loader = ld.StreamingDataLoader(
        dataset,
        batch_size=spec.batch_size,
        num_workers=spec.num_threads,
        prefetch_factor=_NUM_AHEAD,
    )
    for ((images, _),) in loader:
        yield images.to(spec.device, non_blocking=True)


def _sample(spec: Spec, index: int) -> dict[str, object]:
    return {"image": Path(spec.files[index]).read_bytes(), "label": spec.labels[index]}
