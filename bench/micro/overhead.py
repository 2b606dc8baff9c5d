"""The loader's own cost: readers and loader run in full, decoding and augmentation are skipped."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from bench.compare.images import Repeated
from bench.compare.timer import Rate
from dali_pipes import Loader
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.pipeline.augment import Augmenter, Engines
from dali_pipes.pipeline.canvases import Canvases
from dali_pipes.pipeline.make import Production
from dali_pipes.pipeline.pipeline import Pipeline
from dali_pipes.pipeline.stages import NOTHING, Decoded, Fetched
from dali_pipes.pipeline.threads import Render, Workers
from dali_pipes.stats.loop import LoopMeter
from dali_pipes.stats.recorder import Recorder
from gpu_aug import Draws, Recipe
from gpu_aug.compiled.clock import clock
from gpu_aug.engines.engine import Images
from readers import Dataset

BATCH_SIZE = 256
EPOCH = 20_000


@dataclass(frozen=True)
class Overhead:
    """Samples per second of the loader alone, with its statistics and with none, in turns."""

    rate: Rate
    without_statistics: Rate

    @property
    def microseconds_per_step(self) -> float:
        """What the statistics of a step cost."""
        of_step = [1e6 * BATCH_SIZE / one.median for one in (self.rate, self.without_statistics)]
        return of_step[0] - of_step[1]


def measure_overhead(
    dataset: Dataset, *, num_threads: int | None, seconds: float, epoch: int = EPOCH
) -> Overhead:
    """Run epochs of so many samples for some seconds, at least three, after one that is not counted.

    Order, reading, header checks, draws, memory of the batches, hand-over between threads and
    state are all there; only the pixels are missing.
    """
    loader = _idle_loader(dataset, num_threads, epoch)
    other = _idle_loader(dataset, num_threads, epoch)
    _silence(other)
    loops = [_rates(loader), _rates(other)]
    rates: tuple[list[float], list[float]] = ([], [])
    for loop in loops:
        next(loop)
    until = clock() + seconds
    while clock() < until or len(rates[0]) < 3:
        for loop, found in zip(loops, rates, strict=True):
            found.append(next(loop))
    return Overhead(Rate(tuple(rates[0])), Rate(tuple(rates[1])))


def _idle_loader(dataset: Dataset, num_threads: int | None, epoch: int) -> Loader:
    loader = Loader(
        Repeated(dataset, np.arange(min(len(dataset), epoch)), length=epoch),
        Recipe.imagenet_train(),
        batch_size=BATCH_SIZE,
        device="cpu",
        decoder="cpu",
        num_threads=num_threads,
    )
    loader._loops.production = _IdleProduction(loader._setup, loader.steps)
    return loader


def _rates(loader: Loader) -> Iterator[float]:
    while True:
        began = clock()
        count = sum(len(batch) for batch in loader)
        yield count / (clock() - began)


class _Silent(Recorder):
    """Counts nothing."""

    def measure(self, *_: Any, **__: Any) -> Any:
        """Measure nothing."""
        return _NO_CALL

    def waited(self, *_: Any) -> None:
        """Count nothing."""

    def count_whole_images(self, *_: Any) -> None:
        """Count nothing."""


class _SilentMeter(LoopMeter):
    """Counts nothing."""

    def waiting(self, *_: Any) -> Any:
        """Count nothing."""
        return nullcontext()

    def hand_over(self, *_: Any) -> None:
        """Count nothing."""


_NO_CALL = nullcontext(SimpleNamespace())


def _silence(loader: Loader) -> None:
    """Take a loader's statistics away."""
    recorder = _Silent()
    object.__setattr__(loader._setup.fetcher, "recorder", recorder)
    loader._loops.meter = _SilentMeter(recorder, 1)


class _Nothing:
    name = "nothing"

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Leave the memory as it is."""


def _render_nothing(fetched: Fetched, _canvases: Canvases, _start: int) -> Decoded:
    """Leave the canvases unchanged."""
    return Decoded(fetched, [NOTHING] * len(fetched))


class _IdleDecoder(CpuDecoder):
    """Decodes nothing."""

    def _render_of(self, fetched: Fetched) -> Render:
        del fetched
        return _render_nothing


class _IdleProduction(Production):
    """Makes pipelines that decode and augment nothing."""

    def start(self, largest: int) -> Pipeline:
        """See Production."""
        del largest
        setup, fetcher = self.setup, self.setup.fetcher
        views = [replace(view, engine=_Nothing()) for view in setup.views]
        workers = Workers(fetcher, setup.num_threads)
        spawn = Augmenter([Engines(views, fetcher.recorder)], workers).spawn
        decoder = _IdleDecoder(fetcher, spawn, setup.options.prefetch)
        return Pipeline(fetcher, decoder, workers)
