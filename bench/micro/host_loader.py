"""Loaders that do what the host does for a GPU, on a machine without one: pixels alone are left out."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from bench.micro.host_cuda import HostCudaDecoder
from dali_pipes import Loader
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.decode.dali.image_decoder import DaliImageDecoder
from dali_pipes.jpeg.checkpoints import CheckpointStore
from dali_pipes.pipeline.augment import Augmenter, Engines
from dali_pipes.pipeline.make import Production
from dali_pipes.pipeline.pipeline import Pipeline
from dali_pipes.pipeline.stages import Fetched, Images, Pending
from dali_pipes.pipeline.threads import Workers
from gpu_aug import Recipe
from gpu_aug.engines.fused.engine import FusedEngine
from readers import Dataset


class Meter:
    """Time that a thread had a core, by part of the work: within a part the time of the one around it stands still.

    Attributes:
        nanoseconds: By name.
    """

    def __init__(self) -> None:
        self.nanoseconds: dict[str, int] = defaultdict(int)
        self._inner: list[int] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block; blocks of several threads belong to several meters."""
        self._inner.append(0)
        began = time.thread_time_ns()
        yield
        whole = time.thread_time_ns() - began
        self.nanoseconds[name] += whole - self._inner.pop()
        if self._inner:
            self._inner[-1] += whole


class HostLoader:
    """A loader whose decoder, engine and GPU compute nothing, and what its threads spent.

    Args:
        dataset: JPEGs.
        recipe: Begins with a crop to one size.
        batch_size: Images.
        in_push: Whether all that `DaliImageDecoder.prepare` does is done by the thread of the training loop.
        store: Knows the checkpoints of the dataset, for our JPEG decoder; None is DALI.
    """

    def __init__(
        self,
        dataset: Dataset,
        recipe: Recipe,
        *,
        batch_size: int,
        in_push: bool = False,
        store: CheckpointStore | None = None,
    ) -> None:
        self._loader = Loader(
            dataset,
            recipe,
            batch_size=batch_size,
            device="cpu",
            decoder="dali" if store is None else "cpu",
            engine="fused",
            num_threads=1,
            dtype=torch.bfloat16,
        )
        self.loop, self.worker, self.store = Meter(), Meter(), store
        production = _HostProduction(self._loader._setup, self._loader.steps)
        production.host, production.in_push = self, in_push
        self._loader._loops.production = production
        self._batches = self._endless()

    def run(self, num_steps: int) -> dict[str, dict[str, float]]:
        """Take so many steps.

        Returns:
            For the "loop" and for the "worker" thread the microseconds that each part took of an image.
        """
        for meter in (self.loop, self.worker):
            meter.nanoseconds.clear()
        recorder = self._loader._setup.fetcher.recorder
        before, num = recorder.totals().stages, 0
        for _ in range(num_steps):
            with self.loop.part("the rest"):
                num += len(next(self._batches))
        after = recorder.totals().stages
        fetched = {
            name: 1e9 * (after[stage].cpu_seconds - before[stage].cpu_seconds)
            for stage, name in _FETCHED.items()
        }
        parts: dict[str, dict[str, float]] = {
            "loop": dict(self.loop.nanoseconds),
            "worker": fetched | dict(self.worker.nanoseconds),
        }
        return {
            thread: {name: one / num / 1e3 for name, one in spent.items()}
            for thread, spent in parts.items()
        }

    def close(self) -> None:
        """End its threads."""
        self._batches.close()
        self._loader.close()

    def _endless(self) -> Any:
        while True:
            yield from self._loader


_FETCHED: dict[Any, str] = {"read": "read", "header": "headers", "draw": "draws"}


class _MeteredPool:
    """Threads that tell how long they take for what they are given beside fetching."""

    def __init__(self, pool: ThreadPoolExecutor, meter: Meter) -> None:
        self._pool, self._meter = pool, meter
        self.map = pool.map

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See ThreadPoolExecutor."""

        def metered() -> Any:
            with self._meter.part("give back"):
                return work(*arguments)

        return self._pool.submit(metered)


class _HostDecoder(DaliImageDecoder):
    """Tells how long it takes."""

    def __init__(self, host: HostLoader, in_push: bool, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.host, self.in_push = host, in_push
        self._pool: Any = _MeteredPool(self._pool, host.worker)

    def prepare(self, fetched: Fetched) -> Any:
        """See Decoder."""
        if self.in_push:
            return fetched
        with self.host.worker.part("prepare"):
            return super().prepare(fetched)

    def push(self, prepared: Future[Any]) -> None:
        """See Decoder."""
        fetched = prepared.result()
        with self.host.loop.part("push"):
            if self.in_push:
                prepared = Future()
                with self.host.loop.part("prepare"):
                    prepared.set_result(super().prepare(fetched))
            super().push(prepared)

    def take(self) -> Pending:
        """See Decoder."""
        with self.host.loop.part("take"):
            return super().take()


class _HostEngines(Engines):
    """Tells how long it takes."""

    host: HostLoader
    _kept: Images | None = None

    def empty(self, count: int) -> Images:
        """See Engines; memory that is there already, as torch keeps it for a GPU."""
        if self._kept is None or len(self._kept[0]) < count:
            self._kept = super().empty(count)
        return tuple(view[:count] for view in self._kept)

    def augment(self, *arguments: Any) -> Any:
        """See Engines."""
        with self.host.loop.part("engine"):
            return super().augment(*arguments)


class _HostProduction(Production):
    """Makes pipelines in which nobody decodes, resamples or augments."""

    host: HostLoader
    in_push: bool

    def start(self, largest: int) -> Pipeline:
        """See Production."""
        setup, (kept, self._kept) = self.setup, (self._kept, None)
        views = [replace(view, engine=_GpuEngine(view.recipe)) for view in setup.views]
        engines = _HostEngines(views, setup.fetcher.recorder)
        engines.host = self.host
        augmenter = Augmenter([engines], Workers(setup.fetcher, setup.num_threads))
        if self.host.store is not None:
            ours = HostCudaDecoder(
                *(self.host.loop, self.host.worker, setup.fetcher, augmenter),
                *(self.host.store, setup.options.prefetch),
            )
            return Pipeline(setup.fetcher, ours, augmenter.workers, None)
        feed = kept if isinstance(kept, Feed) else self._host_feed(largest)
        decoder = _HostDecoder(self.host, self.in_push, setup.fetcher, augmenter, feed, self._trust)
        return Pipeline(setup.fetcher, decoder, augmenter.workers, feed)

    def _host_feed(self, largest: int) -> Feed:
        """What a loader on a GPU has, but that DALI runs on the CPU and its images are black."""
        setup = self.setup
        options = FeedOptions(
            batch_size=largest,
            device="mixed",
            canvases=True,
            canvas=(tuple(view.recipe.decode_size for view in setup.views),),
            antialias=tuple(view.recipe.antialias for view in setup.views),
            device_id=None,
            num_threads=1,
            depth=setup.options.prefetch,
            hw_decoder_load=setup.options.hw_decoder_load,
        )
        graph = "dali_pipes.decode.dali.graph"
        with patch(f"{graph}.decode", _no_pixels), patch(f"{graph}.render_canvas", _black):
            feed = Feed(options)
        feed._driver._pipeline = _Metered(feed._driver._pipeline, self.host.loop)
        return feed


class _Metered:
    """A DALI pipeline whose calls are counted."""

    def __init__(self, pipeline: Any, meter: Meter) -> None:
        self._pipeline, self._meter = pipeline, meter

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._pipeline, name)

        def metered(*arguments: Any, **options: Any) -> Any:
            with self._meter.part(f"DALI: {name}"):
                return call(*arguments, **options)

        return metered


class _GpuEngine(FusedEngine):
    """The fused engine of a GPU, on memory of the host."""

    def __init__(self, recipe: Recipe) -> None:
        from gpu_aug.engines.fused.triton.run import run_program

        super().__init__(recipe, device=torch.device("cpu"))
        self._run_program = run_program


@contextmanager
def without_gpu() -> Iterator[None]:
    """Launch no kernel in the block."""
    from gpu_aug.engines.fused.triton import kernels

    nothing = _NoLaunch()
    with (
        patch.object(kernels, "run_pass", nothing),
        patch.object(kernels, "sum_gray", nothing),
        patch.object(torch.cuda, "device_of", lambda _: nullcontext()),
    ):
        yield


class _NoLaunch:
    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *_, **__: None


def _no_pixels(encoded: Any, _start: Any, _shape: Any, **_options: Any) -> Any:
    """Three bytes of each file as an image of one pixel."""
    from nvidia.dali import fn

    return fn.reshape(fn.slice(encoded, 0, 3, axes=[0]), shape=[1, 1, 3])


def _black(image: Any, *pairs: Any, antialias: bool) -> Any:
    """A canvas with that pixel, of the size that the last of the pairs says; the others are needed, too."""
    from nvidia.dali import fn

    del antialias
    *others, canvas = pairs
    return fn.slice(
        image,
        start=[0, 0],
        shape=canvas + 0 * sum(others),
        axes=[0, 1],
        out_of_bounds_policy="pad",
    )
