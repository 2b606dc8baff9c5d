"""Torch with threads: torchdata's nodes, whose mapper works in the trainer's own process."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import torchdata.nodes as tn
from torch.utils.data import RandomSampler, default_collate

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = f"torchdata.nodes.ParallelMapper(method='thread'); {augment.NOTE}"

_NUM_AHEAD = 2


def num_ahead(spec: Spec) -> int:  # noqa: ARG001 - others need it
    """Its prefetcher's queue."""
    return _NUM_AHEAD


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Sample, load on threads, collate."""
    sampler = RandomSampler(spec.files, replacement=True, num_samples=10**9)
    torch.set_num_threads(1)  # the mapper's threads are the threads
    load = partial(_load, spec, Augment(spec.recipe, spec.dtype))
    node = tn.ParallelMapper(
        tn.SamplerWrapper(sampler), load, num_workers=spec.num_threads, method="thread"
    )
    node = tn.Prefetcher(tn.Mapper(tn.Batcher(node, spec.batch_size), default_collate), _NUM_AHEAD)
    for images, _ in tn.Loader(node):
        yield images.to(spec.device, non_blocking=True)


def _load(spec: Spec, transform: Augment, index: int) -> tuple[torch.Tensor, int]:
    return transform(Path(spec.files[index]).read_bytes()), spec.labels[index]
