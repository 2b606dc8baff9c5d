"""Baseline of lerobot: its LeRobotDataset in a DataLoader of torch, as its training script uses them.

Its environment has none of gpu-aug's packages, so this module imports only lerobot's and light modules of `bench`.
"""

import os
import tempfile
from collections.abc import Generator
from importlib import metadata
from typing import Any

from bench.compare.contract import Pipeline, Unable
from bench.compare.windows import WindowBatch, WindowTask
from bench.timing import clock

_NUM_AHEAD = 2  # batches per worker, the default of DataLoader


def start(task: WindowTask, *, backend: str) -> Pipeline:
    """Start a DataLoader with the fastest of a few counts of workers, each tried for some batches.

    Args:
        task: The task, which is equal for all contestants.
        backend: The decoder of videos, "torchcodec" or "pyav".

    Raises:
        Unable: torchcodec cannot be loaded.
    """
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": tempfile.mkdtemp()}  # it copies the tables
    if backend == "torchcodec":
        try:
            import torchcodec.decoders  # noqa: F401
        except (ImportError, OSError, RuntimeError) as error:
            raise Unable(f"torchcodec cannot be loaded: {str(error).splitlines()[0]}") from None
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset(
        "local/dataset",
        root=task.root,
        episodes=task.options.get("episodes"),
        delta_timestamps=task.options["delta_timestamps"],
        video_backend=backend,
    )
    some = {max(1, task.num_threads // 2), task.num_threads, 2 * task.num_threads}
    counts = [1] if task.is_rehearsal else sorted(some)
    rates = {count: _try(dataset, task, count) for count in counts if not task.is_rehearsal}
    best = max(rates, key=rates.__getitem__, default=counts[0])
    tried = ", ".join(f"{count}: {rate:.1f}" for count, rate in rates.items())
    note = (
        f"lerobot {metadata.version('lerobot')}, DataLoader with {best} workers (windows/s when tried: {tried}), "
        "float32 in [0, 1]"
    )
    ahead = _NUM_AHEAD * best
    return Pipeline(_batches(dataset, task, best), note, ahead, ahead + best)


def _try(dataset: Any, task: WindowTask, workers: int) -> float:
    """Return the windows per second of the batches after the first one that each worker prepares."""
    batches = _batches(dataset, task, workers)
    next(batches)
    began, count = clock(), _NUM_AHEAD * workers
    for _ in range(count):
        next(batches)
    seconds = clock() - began
    batches.close()
    return count * task.batch_size / seconds


def _batches(dataset: Any, task: WindowTask, workers: int) -> Generator[WindowBatch]:
    from torch.utils.data import DataLoader

    loader = DataLoader(
        dataset,
        batch_size=task.batch_size,
        sampler=task.plan.tolist(),
        num_workers=workers,
        pin_memory=task.device.type == "cuda",
        prefetch_factor=_NUM_AHEAD,
        persistent_workers=True,
    )
    for batch in loader:
        pictures = {
            camera: batch[camera]
            .to(task.device, non_blocking=True)
            .reshape(-1, length, 3, *task.sizes[camera])
            for camera, length in task.lengths.items()
        }
        yield WindowBatch(pictures, {name: batch[name] for name in task.values})
