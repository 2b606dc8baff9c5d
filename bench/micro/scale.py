"""Measure how the loader's cost grows with threads, image size, batch size and dataset length."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bench.compare.images import Repeated, require_sound
from bench.micro.pictures import decode
from bench.micro.rows import Row, Task
from bench.timing import Turn, synchronise, take_turn
from dali_pipes import ImageOptions, Loader
from gpu_aug import Recipe
from readers import Dataset, Sample, open_dataset
from readers.cores import usable_cores

MEANING = (
    "Time per image of a loader with imagenet_train, bfloat16, batches of 64 and a thread per core, but for what varies. start: time "
    "from nothing to the first batch of a new loader."
)

_NUM_SAMPLES = 256
_NUM_PER_SIZE = 4  # photographs of each size; one of 24 megapixels takes a second to make
_QUALITY = 90
_PIXELS_MAX = 200_000_000
_NUM_DISCARD = 6  # batches before the measurement: more than the loader makes ahead

_MEGAPIXELS = (0.1, 0.3, 1.0, 3.0, 8.0, 24.0)
_BATCHES = (1, 4, 16, 64, 256)
_LENGTHS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for every parameter that varies."""
    original = open_dataset(task.source)
    samples, _ = require_sound(task.source, original, most=_NUM_SAMPLES)
    picks = np.array([sample.index for sample in samples], np.int64)
    take = partial(_take_batches, Repeated(original, picks))
    threads = [2**power for power in range(10) if 2**power <= usable_cores()]
    yield Row("threads", {str(n): partial(take, num_threads=n) for n in threads})
    most = 2 if task.quick else None
    yield Row("images in a batch", {str(n): partial(take, batch_size=n) for n in _BATCHES[:most]})
    sized = {
        f"{size:g}": resized(samples, size, task.folder / f"{size:g}")
        for size in _MEGAPIXELS[:most]
    }
    sizes = {name: partial(_take_batches, data, batch_size=8) for name, data in sized.items()}
    yield Row("megapixels, batches of 8", sizes)
    lengths = {f"{n:,} samples": Repeated(original, picks, length=n) for n in _LENGTHS}
    starts = {name: partial(_take_starts, data) for name, data in lengths.items()}
    yield Row("start, by length of the dataset", starts)


def _take_batches(dataset: Dataset, seconds: float, **options: int) -> Turn:
    """Take batches of a new loader for some seconds; an older loader would continue to work between measurements."""
    with _loader(dataset, **options) as loader:
        return take_turn(
            partial(next, iter(loader)),
            seconds=seconds,
            discard=_NUM_DISCARD,
            finish=partial(synchronise, loader.device),
        )


def _take_starts(dataset: Dataset, seconds: float) -> Turn:
    def start() -> None:
        with _loader(dataset) as loader:
            next(iter(loader))
            synchronise(loader.device)

    return take_turn(start, seconds=seconds, count=lambda _: 1)


def _loader(dataset: Dataset, *, batch_size: int = 64, num_threads: int | None = None) -> Loader:
    return Loader(
        dataset,
        Recipe.imagenet_train(),
        batch_size=batch_size,
        num_threads=num_threads or usable_cores(),
        dtype=torch.bfloat16,
        images=ImageOptions(max_pixels=_PIXELS_MAX),
    )


def resized(samples: list[Sample], megapixels: float, folder: Path) -> Dataset:
    """Resize photographs, write them as JPEG, and return a dataset of these files, repeated.

    Args:
        samples: Sound samples; the first few are used.
        megapixels: Millions of pixels of each resized photograph; the aspect ratio is kept.
        folder: Receives the files.
    """
    files = folder / "photographs"  # a class folder, so that they have labels
    files.mkdir(parents=True)
    for number, sample in enumerate(samples[:_NUM_PER_SIZE]):
        image = Image.fromarray(decode(sample))
        scale = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
        width, height = (max(8, round(side * scale)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
        image.save(files / f"{number}.jpg", quality=_QUALITY, subsampling="4:2:0")
    dataset = open_dataset(str(folder))
    return Repeated(dataset, np.arange(len(dataset)))
