"""How the loader's cost grows with threads, image size, batch size and dataset length."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bench.compare.images import Repeated, require_sound
from bench.micro.rows import Row, Task
from bench.timing import Turn, synchronise, take_turn
from dali_pipes import Loader
from dali_pipes.decode import opencv
from gpu_aug import Recipe
from readers import Dataset, Sample, open_dataset, read_header
from readers.cores import usable_cores

MEANING = (
    "Time per image of a loader with imagenet_train, bfloat16, batches of 64 and a thread per core, but for what varies. start: time "
    "from nothing to the first batch of a new loader."
)

_NUM_SAMPLES = 256
_NUM_PER_SIZE = 4  # photographs of each size: those of 24 megapixels take a second to make
_QUALITY = 90
_PIXELS_MAX = 200_000_000
_NUM_DISCARD = 6  # batches before the clock starts: more than the loader makes ahead

_MEGAPIXELS = (0.1, 0.3, 1.0, 3.0, 8.0, 24.0)
_BATCHES = (1, 4, 16, 64, 256)
_LENGTHS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)


def rows(task: Task) -> Iterator[Row]:
    """Yield a row for everything that varies."""
    original = open_dataset(task.source)
    samples, _ = require_sound(task.source, original, most=_NUM_SAMPLES)
    picks = np.array([sample.index for sample in samples], np.int64)
    data = Repeated(original, picks)
    threads = [2**power for power in range(10) if 2**power <= usable_cores()]
    yield Row("threads", {str(n): partial(_take_batches, data, num_threads=n) for n in threads})
    batches = _BATCHES[:2] if task.quick else _BATCHES
    yield Row(
        "images in a batch", {str(n): partial(_take_batches, data, batch_size=n) for n in batches}
    )
    megapixels = _MEGAPIXELS[:2] if task.quick else _MEGAPIXELS
    sized = {size: resized(samples, size, task.folder / f"{size:g}") for size in megapixels}
    contestants = {
        f"{size:g}": partial(_take_batches, data_of_size, batch_size=8)
        for size, data_of_size in sized.items()
    }
    yield Row("megapixels, batches of 8", contestants)
    lengths = {n: Repeated(original, picks, length=n) for n in _LENGTHS}
    starts = {f"{n:,} samples": partial(_take_starts, lengths[n]) for n in _LENGTHS}
    yield Row("start, by length of the dataset", starts)


def _take_batches(dataset: Dataset, seconds: float, **options: int) -> Turn:
    """Take a turn with a new loader: one that waits for its next turn would go on working."""
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
        max_pixels=_PIXELS_MAX,
    )


def resized(samples: list[Sample], megapixels: float, folder: Path) -> Dataset:
    """Resize photographs to a number of pixels, write them as JPEG, and open them, over and over.

    Args:
        samples: Sound ones; the first few are taken.
        megapixels: Millions of pixels of each; the shape is kept.
        folder: Gets the files.
    """
    files = folder / "photographs"  # a class folder, so that they have labels
    files.mkdir(parents=True)
    for number, sample in enumerate(samples[:_NUM_PER_SIZE]):
        header = read_header(sample.image or b"")
        pixels = opencv.decode(sample.image or b"", (header.height, header.width))
        scale = (megapixels * 1e6 / (header.height * header.width)) ** 0.5
        size = (max(8, round(header.width * scale)), max(8, round(header.height * scale)))
        image = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        image.save(files / f"{number}.jpg", quality=_QUALITY, subsampling="4:2:0")
    dataset = open_dataset(str(folder))
    return Repeated(dataset, np.arange(len(dataset)))
