"""Grain: a dataset of files, shuffled, mapped and batched in worker processes."""

from collections.abc import Iterator
from pathlib import Path

import grain
import numpy as np
import torch
from absl import flags

from bench.baselines.peers import augment
from bench.baselines.peers.augment import Augment
from bench.baselines.peers.spec import Spec

NOTE = (
    "grain.MapDataset in worker processes, float32 arrays through shared memory (it carries no "
    f"bfloat16), .to(dtype) in the trainer; {augment.NOTE}"
)

_NUM_AHEAD = 2  # batches per worker


def num_ahead(spec: Spec) -> int:
    """Number of batches that its workers prefetch."""
    return _NUM_AHEAD * spec.num_threads


class _Load:
    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._transform = Augment(spec.recipe, torch.float32)

    def __call__(self, index: int) -> dict[str, object]:
        encoded = Path(self._spec.files[index]).read_bytes()
        return {
            "image": self._transform(encoded).numpy(),
            "label": np.int64(self._spec.labels[index]),
        }


def batches(spec: Spec) -> Iterator[torch.Tensor]:
    """Shuffle, load and batch in workers; convert here."""
    # Worker processes look at a flag of absl, whose flags only absl.app.run parses; all keep their defaults.
    flags.FLAGS.mark_as_parsed()
    dataset = (
        grain.MapDataset.source(range(len(spec.files)))
        .seed(spec.seed)
        .shuffle()
        .repeat()
        .map(_Load(spec))
        .batch(spec.batch_size, drop_remainder=True)
        .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1))
        .mp_prefetch(grain.MultiprocessingOptions(spec.num_threads, _NUM_AHEAD))
    )
    for batch in dataset:
        images = torch.from_numpy(batch["image"])
        yield images.to(spec.device, spec.dtype, non_blocking=True)
