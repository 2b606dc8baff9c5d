"""Baseline of LitData: chunks made by ``optimize``, streamed repeatedly."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import litdata as ld
import torch

from bench.baselines.peers.augment import NUM_AHEAD, Augment, peer_pipeline
from bench.compare.task import Task


class _Photos(ld.StreamingDataset):  # type: ignore[misc]
    def __init__(self, task: Task, chunks: Path) -> None:
        super().__init__(str(chunks), shuffle=True, drop_last=False, seed=task.seed)
        self._transform = Augment(task.recipe, task.dtype)

    def __getitem__(self, index: Any) -> Any:
        sample = super().__getitem__(index)
        return self._transform(sample["image"]), sample["label"]


@peer_pipeline(
    "chunks with encoded bytes, shuffled, ParallelStreamingDataset so that no epoch ends"
)
def start(task: Task) -> Iterator[torch.Tensor]:
    """Write chunks, then yield batches that workers read and map."""
    chunks = Path(mkdtemp()) / "chunks"
    ld.optimize(
        partial(_sample, task),
        list(range(len(task.files))),
        str(chunks),
        chunk_bytes="8MB",
        num_workers=1,
        verbose=False,
    )
    dataset = ld.ParallelStreamingDataset([_Photos(task, chunks)], length=float("inf"))
    loader = ld.StreamingDataLoader(
        dataset,
        batch_size=task.batch_size,
        num_workers=task.num_threads,
        prefetch_factor=NUM_AHEAD,
    )
    for ((images, _),) in loader:
        yield images


def _sample(task: Task, index: int) -> dict[str, object]:
    return {"image": Path(task.files[index]).read_bytes(), "label": task.labels[index]}
