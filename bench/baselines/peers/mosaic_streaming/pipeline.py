"""Baseline of Mosaic Streaming: MDS shards on the local disk."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

from bench.baselines.peers.augment import NUM_AHEAD, Augment, peer_pipeline
from bench.compare.task import Task

_NUM_SAMPLES = 1_000_000  # more than any comparison needs: the samples are repeated


class _Photos(StreamingDataset):  # type: ignore[misc]
    def __init__(self, task: Task, folder: str) -> None:
        super().__init__(
            local=folder,
            shuffle=True,
            shuffle_seed=task.seed,
            batch_size=task.batch_size,
            epoch_size=_NUM_SAMPLES,
        )
        self._transform = Augment(task.recipe, task.dtype)

    def __getitem__(self, at: Any) -> Any:
        sample = super().__getitem__(at)
        return self._transform(sample["image"]), sample["label"]


@peer_pipeline("MDS shards with encoded bytes, StreamingDataLoader, shuffled by py1e")
def start(task: Task) -> Iterator[torch.Tensor]:
    """Write shards, then yield batches that workers read and map."""
    folder = mkdtemp()
    with MDSWriter(out=folder, columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in zip(task.files, task.labels, strict=True):
            writer.write({"image": Path(path).read_bytes(), "label": label})
    loader = StreamingDataLoader(
        _Photos(task, folder),
        batch_size=task.batch_size,
        num_workers=task.num_threads,
        prefetch_factor=NUM_AHEAD,
        drop_last=True,
    )
    for images, _ in loader:
        yield images
