"""How cost grows: loaders that differ in one thing, timed in turns; start-up; memory."""

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from PIL import Image

from bench.compare.images import Repeated
from bench.compare.timer import Rate, time_slice
from dali_pipes import Loader
from dali_pipes.decode import opencv
from gpu_aug import Recipe
from readers import Dataset, Sample, open_dataset, read_header

Key = TypeVar("Key", int, float)

_NUM_DISCARD = 6  # batches before the clock starts: what the loader makes ahead
_NUM_PER_SIZE = 4
_QUALITY = 90
_PIXELS_MAX = 200_000_000
_PAGES_PER_READING = 20


@dataclass(frozen=True)
class Build:
    """Settings shared by all loaders of a run.

    Attributes:
        recipe: What they carry out.
        device: As `Loader` takes it.
        decoder: As `Loader` takes it.
        engine: As `Loader` takes it.
        batch_size: Images in a batch, where it is not what varies.
        num_threads: Threads, where they are not what varies.
    """

    recipe: Recipe
    device: str
    decoder: str
    engine: str
    batch_size: int
    num_threads: int

    def loader(
        self, dataset: Dataset, *, batch_size: int | None = None, num_threads: int | None = None
    ) -> Loader:
        """Build one over a dataset."""
        return Loader(
            dataset,
            self.recipe,
            batch_size=batch_size or self.batch_size,
            device=self.device,
            # The loader checks these words itself and says which are allowed.
            decoder=cast("Any", self.decoder),
            engine=cast("Any", self.engine),
            num_threads=num_threads or self.num_threads,
            dtype=torch.bfloat16,
            max_pixels=_PIXELS_MAX,
        )


def race_loaders(
    makes: Mapping[Key, Callable[[], Loader]], *, rounds: int, seconds: float
) -> dict[Key, Rate]:
    """Let loaders take turns, each built anew for its turn, since an idle one would go on working."""
    keys = list(makes)
    runs: dict[Key, list[float]] = {key: [] for key in keys}
    for number in range(rounds):
        for key in keys[number % len(keys) :] + keys[: number % len(keys)]:
            with makes[key]() as loader:
                runs[key].append(_rate(loader, seconds / rounds))
    return {key: Rate(tuple(own)) for key, own in runs.items()}


def _rate(loader: Loader, seconds: float) -> float:
    batches = iter(loader)
    turn = time_slice(
        lambda: next(batches).images,
        seconds=seconds,
        discard=_NUM_DISCARD,
        finish=lambda: _finish(loader.device),
    )
    return turn.images_per_second


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def photographs_of(samples: list[Sample], megapixels: float, folder: Path) -> Dataset:
    """Resize real photographs to a number of pixels, write them as JPEG, and open them, over and over.

    Args:
        samples: Sound ones; the first few are taken.
        megapixels: Millions of pixels of each; the shape is kept.
        folder: Empty or not there yet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(samples[:_NUM_PER_SIZE]):
        header = read_header(sample.image or b"")
        pixels = opencv.decode(sample.image or b"", (header.height, header.width))
        scale = (megapixels * 1e6 / (header.height * header.width)) ** 0.5
        size = (max(8, round(header.width * scale)), max(8, round(header.height * scale)))
        resized = Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC)
        resized.save(folder / f"{number}.jpg", quality=_QUALITY, subsampling="4:2:0")
    dataset = open_dataset(str(folder))
    return Repeated(dataset, np.arange(len(dataset)))


@dataclass(frozen=True)
class Start:
    """The start-up cost with a dataset of some length.

    Attributes:
        build_seconds: To make the loader.
        first_batch_seconds: From asking for the first batch to having it.
        grown_mib: How much larger the process is with it than before; negative where memory was given back.
    """

    build_seconds: float
    first_batch_seconds: float
    grown_mib: float


def measure_start(build: Build, dataset: Dataset) -> Start:
    """Make a loader, take one batch and look at the memory."""
    gc.collect()
    before = resident_mib()
    began = time.perf_counter()
    with build.loader(dataset) as loader:
        built = time.perf_counter()
        batches = iter(loader)
        batch = next(batches)
        _finish(loader.device)
        first = time.perf_counter()
        grown = resident_mib() - before
        del batch, batches
    return Start(built - began, first - built, grown)


def watch_memory(build: Build, dataset: Dataset, num_batches: int) -> list[tuple[int, float]]:
    """Take many batches and look at the process's memory (batches taken, MiB) about twenty times."""
    readings = []
    every = max(1, num_batches // _PAGES_PER_READING)
    with build.loader(dataset) as loader:
        taken = 0
        while taken < num_batches:
            for batch in loader:
                del batch
                taken += 1
                if taken % every == 0:
                    readings.append((taken, round(resident_mib(), 1)))
                if taken == num_batches:
                    break
    return readings


def growth_mib(readings: list[tuple[int, float]]) -> float:
    """Growth of the process's memory from the second to the last quarter of the readings, MiB."""
    sizes = [size for _, size in readings]
    quarter = max(1, len(sizes) // 4)
    second, last = sizes[quarter : 2 * quarter] or sizes[:1], sizes[-quarter:]
    return round(float(np.median(last) - np.median(second)), 1)


def resident_mib() -> float:
    """Memory of this process that is in use now; where the system does not tell, the most so far."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def predicted_rate(rate_of_one: float, serial_seconds: float, num_threads: int) -> float:
    """Images per second of several threads by Amdahl's law.

    Args:
        rate_of_one: Images per second that one thread gave.
        serial_seconds: The part of the time per image that threads cannot share.
        num_threads: 1 or more.
    """
    shared = max(0.0, 1 / rate_of_one - serial_seconds)
    return 1 / (min(serial_seconds, 1 / rate_of_one) + shared / num_threads)
