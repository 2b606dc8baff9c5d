"""Rebuild Albumentations' comparison with DALI: one transform at a time, from JPEG files to normalised batches."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from functools import cache, partial

import torch

from bench.compare.compare import rest
from bench.compare.contestants import Contestant
from bench.compare.images import collect
from bench.compare.process import ContestantProcess
from bench.compare.task import Task as Comparison
from bench.micro.ops_table import Op
from bench.micro.rows import Row, Task
from bench.published.albumentations_ops import ALBUMENTATIONS_OPS
from bench.timing import Turn
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
    with ExitStack() as stack:
        processes = [
            stack.enter_context(closing(ContestantProcess(contestant)))
            for contestant in _CONTESTANTS
        ]
        for op in DALI_OPS:
            comparison = Comparison(
                images.dataset,
                images.files,
                images.labels,
                recipe_of(op),
                2 if task.quick else _IMAGES_PER_WORKER * workers,
                torch.device("cpu"),
                workers,
                seed=0,
            )
            yield Row(op.name, _turns(processes, comparison))


def recipe_of(op: Op) -> Recipe:
    """Return our recipe for a transform of the original, with the crop before and Normalize behind."""
    import albumentations as alb

    steps = [op.make("albumentations"), alb.Normalize()]
    if op.name != "RandomResizedCrop":
        crop = [] if op.name == "RandomCrop224" else [alb.RandomCrop(224, 224)]
        steps = [alb.SmallestMaxSize(256), *crop, *steps]
    return Recipe.from_albumentations(alb.Compose(steps))


def _turns(
    processes: list[ContestantProcess], comparison: Comparison
) -> Mapping[str, Callable[[float], Turn]]:
    """Return contestants that open the task in their first turn, and leave the cores to the next one after each turn."""

    def turn(process: ContestantProcess, opened: Callable[[], None], seconds: float) -> Turn:
        opened()
        made = process.turn(seconds)
        rest(process, comparison, made.rate)
        return made

    return {
        process.name: partial(turn, process, cache(partial(process.open, comparison)))
        for process in processes
    }
