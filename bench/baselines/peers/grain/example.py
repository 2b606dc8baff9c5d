"""Grain's own example of loading images, the guide of its DataLoader, with batches."""

from itertools import count
from pathlib import Path
from typing import Any

import cv2
import grain.python as grain
import numpy as np
import torch

from bench.baselines.peers.augment import NUM_AHEAD
from bench.baselines.peers.grain import pipeline as _with_parsed_flags  # noqa: F401
from bench.compare.task import Pipeline, Task


class Load(grain.MapTransform):  # type: ignore[misc, unused-ignore]
    """Decodes as TensorFlow Datasets do, then resizes to 256 x 256 and takes the corner, as the guide."""

    def map(self, path: str) -> Any:
        """Return uint8 [224, 224, 3]."""
        cv2.setNumThreads(0)  # parallelism comes from the workers
        encoded = np.frombuffer(Path(path).read_bytes(), np.uint8)
        image = cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB)
        return cv2.resize(image, dsize=(256, 256), interpolation=cv2.INTER_LINEAR)[:224, :224]


def start(task: Task) -> Pipeline:
    """Start `grain.DataLoader` with a worker per core."""
    loader = grain.DataLoader(
        data_source=[str(path) for path in task.files],
        sampler=grain.IndexSampler(
            num_records=len(task.files), shard_options=grain.NoSharding(), shuffle=True, seed=0
        ),
        operations=[Load(), grain.Batch(task.batch_size, drop_remainder=True)],
        worker_count=task.num_threads,
    )
    batches = (torch.from_numpy(batch).permute(0, 3, 1, 2) for _ in count() for batch in loader)
    ahead = NUM_AHEAD * task.num_threads
    return Pipeline(batches, "", ahead, ahead + task.num_threads)
