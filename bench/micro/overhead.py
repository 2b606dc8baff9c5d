"""The loader's own cost: readers and loader run in full, decoding and augmentation are skipped."""

from collections.abc import Iterator
from dataclasses import replace

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
    loader = Loader(
        Repeated(dataset, np.arange(min(len(dataset), epoch)), length=epoch),
        Recipe.imagenet_train(),
        batch_size=BATCH_SIZE,
        device="cpu",
        decoder="cpu",
        num_threads=num_threads,
    )
    loader._production = _IdleProduction(loader._setup, loader.steps)
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
        setup, fetcher = self._setup, self._setup.fetcher
        views = [replace(view, engine=_Nothing()) for view in setup.views]
        workers = Workers(fetcher, setup.num_threads)
        spawn = Augmenter([Engines(views, fetcher.recorder)], workers).spawn
        decoder = _IdleDecoder(fetcher, spawn, setup.options.prefetch)
        return Pipeline(fetcher, decoder, workers)
