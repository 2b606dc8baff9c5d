"""Rebuild Albumentations' comparison with DALI: one transform at a time, from JPEG files to normalised batches."""

from collections.abc import Iterator

import torch

from bench.compare.contract import Contestant
from bench.compare.images import collect
from bench.compare.task import Task as LoadTask
from bench.micro.rows import Row, Task
from bench.published.albumentations_ops import ALBUMENTATIONS_OPS
from bench.published.operations import Op
from bench.published.processes import rows_of_processes
from gpu_aug import Recipe
from readers.cores import usable_cores

MEANING = (
    "Time per image from JPEG files to a float32 batch; speed relative to Albumentations. Every contestant "
    "decodes, resizes the shorter side to 256, takes a random crop of 224, applies the transform and normalises; RandomResizedCrop "
    "crops instead. Albumentations: a DataLoader with one worker per core (at most 8), OpenCV, Albumentations. DALI: fn.readers.file, "
    "on the CPU. gpu-aug: our Loader, decoder 'cpu', engine 'fused', files that were met before. The batch has 32 images per worker: "
    "256 for 8 workers. Each contestant has its own process."
)

_NAMES = (
    *("Resize", "RandomCrop224", "RandomResizedCrop", "HorizontalFlip", "VerticalFlip", "Pad"),
    *("Rotate", "Affine", "Shear", "Brightness", "Contrast", "ColorJitter", "ColorJiggle", "Hue"),
    *("Saturation", "CLAHE", "Equalize", "GaussianBlur", "GaussianNoise", "SaltAndPepper"),
    *("Erasing", "JpegCompression"),
)
DALI_OPS = tuple(op for name in _NAMES for op in ALBUMENTATIONS_OPS if op.name == name)
"""The transforms of Albumentations' image benchmark that the original has in DALI, too."""

# As in the original.
_MOST_WORKERS, _IMAGES_PER_WORKER = 8, 32

_CONTESTANTS = (
    Contestant(
        "Albumentations", "baseline", "bench.baselines.images:OpencvAlbumentations.in_processes"
    ),
    Contestant(
        "gpu-aug", "engine", "bench.compare.ours:start", {"decoder": "cpu", "engine": "fused"}
    ),
    Contestant("DALI", "baseline", "bench.baselines.dali:start", {"decode": "cpu"}),
)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every transform; the processes of the contestants serve all rows."""
    images = collect(task.source, task.folder)
    workers = min(_MOST_WORKERS, usable_cores())
    tasks = {
        op.name: LoadTask(
            images.dataset,
            images.files,
            images.labels,
            recipe_of(op),
            2 if task.quick else _IMAGES_PER_WORKER * workers,
            torch.device("cpu"),
            workers,
            seed=0,
        )
        for op in DALI_OPS
    }
    yield from rows_of_processes(_CONTESTANTS, tasks)


def recipe_of(op: Op) -> Recipe:
    """Return our recipe for a transform of the original, with the crop before and Normalize behind."""
    import albumentations as alb

    steps = [op.make("albumentations"), alb.Normalize()]
    if op.name != "RandomResizedCrop":
        crop = [] if op.name == "RandomCrop224" else [alb.RandomCrop(224, 224)]
        steps = [alb.SmallestMaxSize(256), *crop, *steps]
    return Recipe.from_albumentations(alb.Compose(steps))
