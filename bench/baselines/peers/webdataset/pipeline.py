"""WebDataset: tar shards, drawn again and again, with a buffer that shuffles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import webdataset as wds
from torch.utils.data import default_collate

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = f"tar shards, resampled, a shuffle buffer of 1000, wds.WebLoader; {augment.NOTE}"

_NUM_SHARDS_PER_WORKER = 4
_NUM_AHEAD = 2  # batches per worker


def num_ahead(spec: Spec) -> int:
    """Number of batches that its workers prefetch."""
    return _NUM_AHEAD * spec.num_threads


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Write shards, then read, shuffle, map and batch in workers."""
    dataset = (
        wds.WebDataset(_write_shards(spec), resampled=True, nodesplitter=wds.split_by_node)
        .shuffle(1000)
        .to_tuple("jpg", "cls")
        .map_tuple(Augment(spec.recipe, spec.dtype), int)
        .batched(spec.batch_size, collation_fn=default_collate, partial=False)
    )
    loader: Any = wds.WebLoader(
        dataset, batch_size=None, num_workers=spec.num_threads, prefetch_factor=_NUM_AHEAD
    )
    for images, _ in loader:
        yield images.to(spec.device, non_blocking=True)


def _write_shards(spec: Spec) -> list[str]:
    count = min(len(spec.files), _NUM_SHARDS_PER_WORKER * spec.num_threads)
    shards = [str(spec.folder / f"train-{number:06d}.tar") for number in range(count)]
    for number, shard in enumerate(shards):
        with wds.TarWriter(shard) as writer:
            for index in range(number, len(spec.files), count):
                writer.write(
                    {
                        "__key__": f"{index:08d}",
                        "jpg": Path(spec.files[index]).read_bytes(),
                        "cls": str(spec.labels[index]),
                    }
                )
    return shards
