"""The loader's own cost: readers and loader at full work, decoding and augmentation replaced by nothing."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from bench.compare.images import Repeated
from bench.compare.timer import Rate
from dali_pipes import Loader
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.pipeline.augment import Finisher, Pending, Sheets
from dali_pipes.pipeline.produce import CpuProducer, Producer
from dali_pipes.schedule import Plan
from gpu_aug import Draws, Recipe
from gpu_aug.compiled.clock import clock
from gpu_aug.engines.engine import Images
from readers import Dataset

BATCH_SIZE = 256
EPOCH = 20_000


def measure_overhead(
    dataset: Dataset, *, num_threads: int | None, seconds: float, epoch: int = EPOCH
) -> Rate:
    """Run epochs of so many samples for some seconds, at least three, after one that is not counted.

    Order, reading, header checks, draws, memory of the batches, hand-over between threads and
    state are all there; only the pixels are missing.
    """
    loader = _IdleLoader(
        Repeated(dataset, np.arange(min(len(dataset), epoch)), length=epoch),
        Recipe.imagenet_train(),
        batch_size=BATCH_SIZE,
        device="cpu",
        decoder="cpu",
        num_threads=num_threads,
    )
    next(_rates(loader))
    rates: list[float] = []
    until = clock() + seconds
    for rate in _rates(loader):
        rates.append(rate)
        if clock() > until and len(rates) >= 3:
            break
    return Rate(tuple(rates))


def _rates(loader: Loader) -> Iterator[float]:
    while True:
        began = clock()
        count = sum(len(batch) for batch in loader)
        yield count / (clock() - began)


class _Nothing:
    name = "nothing"

    def run(self, images: Images, draws: Draws, out: torch.Tensor) -> None:
        """Leave the memory as it is."""


def _draw_nothing(_sheets: Sheets, _first: int, _last: int) -> None:
    """Leave the canvases as they are."""


class _IdleProducer(CpuProducer):
    def _begin(self, plan: Plan) -> Pending:
        return self._finisher.spawn(self._workshop.prepare(plan), _draw_nothing)


class _IdleLoader(Loader):
    def _producer(self) -> tuple[Producer, Feed | None]:
        views = [replace(view, engine=_Nothing()) for view in self._views]
        finisher = Finisher(views, self.timings, self._num_threads)
        return _IdleProducer(self._workshop, finisher, self._prefetch, fast=False), None
