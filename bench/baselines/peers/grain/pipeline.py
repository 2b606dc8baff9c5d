"""Baseline of Grain: a dataset of files, shuffled, mapped and batched in worker processes."""

from collections.abc import Iterator
from pathlib import Path

import grain
import numpy as np
import torch
from absl import flags

from bench.baselines.peers.augment import NUM_AHEAD, Augment, peer_pipeline
from bench.compare.task import Task

# Grain reads flags, which only absl's main parses; parsed here, so that worker processes do it, too.
flags.FLAGS.mark_as_parsed()


class _Load:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._transform = Augment(task.recipe, torch.float32)

    def __call__(self, index: int) -> dict[str, object]:
        encoded = Path(self._task.files[index]).read_bytes()
        return {
            "image": self._transform(encoded).numpy(),
            "label": np.int64(self._task.labels[index]),
        }


@peer_pipeline(
    "grain.MapDataset in worker processes, float32 arrays through shared memory (it carries no "
    "bfloat16), .to(dtype) in the trainer",
    # Each worker has its queue, a batch that waits for room in it, and one in its reader's buffer.
    num_ahead=NUM_AHEAD + 2,
)
def start(task: Task) -> Iterator[torch.Tensor]:
    """Yield batches that workers shuffle, load and batch; this process converts the dtype."""
    dataset = (
        grain.MapDataset.source(range(len(task.files)))
        .seed(task.seed)
        .shuffle()
        .repeat()
        .map(_Load(task))
        .batch(task.batch_size, drop_remainder=True)
        .to_iter_dataset(grain.ReadOptions(num_threads=1, prefetch_buffer_size=1))
        .mp_prefetch(grain.MultiprocessingOptions(task.num_threads, NUM_AHEAD))
    )
    for batch in dataset:
        yield torch.from_numpy(batch["image"])
