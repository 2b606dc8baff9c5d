"""Rebuild SPDL's example of loading images for training, and run torch's DataLoader and our Loader on the same files."""

from collections.abc import Iterator, Sequence

import torch
from torchvision.transforms import v2

from bench.baselines.images import TorchvisionPil
from bench.compare.contract import Contestant
from bench.compare.images import collect
from bench.compare.task import Task as LoadTask
from bench.micro.rows import Row, Task
from bench.published.processes import rows_of_processes
from gpu_aug import Recipe, Resize
from readers.cores import usable_cores

MEANING = (
    "Time per image of batches of 32 x 3 x 224 x 224 in uint8, from files in the page cache; a thread or worker per core; speed relative to "
    "torch's DataLoader, in which Pillow decodes, as in the example. Each resizes the full image to 224 x 224, SPDL's FFmpeg "
    "with bicubic interpolation, the others linearly."
)

BATCH_SIZE = 32
"""Images in a batch, as in the examples of SPDL."""

_NUM_THREADS_MAX = 16  # as in the example

OURS = Contestant(
    "gpu-aug", "engine", "bench.compare.ours:start", {"decoder": "cpu", "engine": "fused"}
)
_TORCH = Contestant(
    "torch DataLoader", "baseline", "bench.published.spdl:TorchExample.in_processes"
)
_SPDL = Contestant("SPDL", "baseline", "bench.baselines.peers.spdl.example:start", peer="spdl")


class TorchExample(TorchvisionPil):
    """The example's part for torch: Pillow decodes and resizes in the workers of a DataLoader."""

    def __init__(self, recipe: Recipe) -> None:
        self.transform = v2.Compose([v2.Resize(recipe.fixed_size), v2.PILToTensor()])


def rows(task: Task) -> Iterator[Row]:
    """Yield one row."""
    return rows_of_loaders(task, Recipe([Resize((224, 224))]), (_TORCH, _SPDL, OURS))


def rows_of_loaders(task: Task, recipe: Recipe, contestants: Sequence[Contestant]) -> Iterator[Row]:
    """Yield one row, in which loaders make uint8 batches of the data's files on the CPU."""
    images = collect(task.source, task.folder)
    load = LoadTask(
        images.dataset,
        images.files,
        images.labels,
        recipe,
        batch_size=BATCH_SIZE,
        device=torch.device("cpu"),
        num_threads=min(_NUM_THREADS_MAX, usable_cores()),
        seed=0,
        dtype=torch.uint8,
    )
    yield from rows_of_processes(contestants, {f"{len(images.files)} files": load})
