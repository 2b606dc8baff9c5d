"""Baseline of WebDataset: resampled tar shards with a shuffle buffer."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
import webdataset as wds
from torch.utils.data import default_collate

from bench.baselines.peers.augment import NUM_AHEAD, Augment, peer_pipeline
from bench.compare.task import Task

_NUM_SHARDS_PER_WORKER = 4


@peer_pipeline("tar shards, resampled, a shuffle buffer of 1000, wds.WebLoader")
def start(task: Task) -> Iterator[torch.Tensor]:
    """Write shards, then yield batches that workers read, shuffle, map and batch."""
    dataset = (
        wds.WebDataset(_write_shards(task), resampled=True, nodesplitter=wds.split_by_node)
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map_tuple(Augment(task.recipe, task.dtype), int)
        .batched(task.batch_size, collation_fn=default_collate, partial=False)
    )
    loader: Any = wds.WebLoader(
        dataset, batch_size=None, num_workers=task.num_threads, prefetch_factor=NUM_AHEAD
    )
    for images, _ in loader:
        yield images


def _write_shards(task: Task) -> list[str]:
    count = min(len(task.files), _NUM_SHARDS_PER_WORKER * task.num_threads)
    folder = Path(mkdtemp())
    shards = [str(folder / f"train-{number:06d}.tar") for number in range(count)]
    for number, shard in enumerate(shards):
        with wds.TarWriter(shard) as writer:
            for index in range(number, len(task.files), count):
                writer.write(
                    {
                        "__key__": f"{index:08d}",
                        "jpg": Path(task.files[index]).read_bytes(),
                        "cls": str(task.labels[index]),
                    }
                )
    return shards
