"""Making the pipelines of a loader's loops, and keeping the parts that several of them share."""

import atexit
import os
import weakref
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from dali_pipes.arguments.setup import Setup
from dali_pipes.decode.dali.feed import Feed, FeedOptions
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.errors import LoaderError
from dali_pipes.jpeg.seek_point_stores import open_seek_points
from dali_pipes.machine.compile_ahead import compile_ahead
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.endings import wait_for_ends
from dali_pipes.stages.helper_client import HelperPool
from dali_pipes.stages.job import HELPER, Job, make_job, require_helper_process
from dali_pipes.stages.pipeline import BatchSource, Decoder, Pipeline
from dali_pipes.stages.shared_batch import RemoteBatchSource
from dali_pipes.stages.threads import Workers
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.steps import AnySteps
from dali_pipes.video.dali.feed import ClipFeed, ClipFeedOptions
from dali_pipes.video.dali.nvdec import find_nvdec
from dali_pipes.video.dali.support import Refusals

if TYPE_CHECKING:
    from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache
    from dali_pipes.decode.dali.trust import Trust

LOOPS: weakref.WeakSet[Generator[Any]] = weakref.WeakSet()
"""The loops that this process has begun; see `end_loops_at_exit`."""

_OF_PARENT: list[Generator[Any]] = []
"""Loops that were under way at a fork: they stay open in the child, for ending them would speak for the parent."""


def _leave_to_parent() -> None:
    _OF_PARENT.extend(LOOPS)
    LOOPS.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


class Production:
    """Makes the pipeline of a loop.

    A DALI pipeline or helper processes that have nothing left in them serve the next loop; remote workers serve all.

    Args:
        setup: The configuration of the loader.
        steps: Say how many samples are worked on in a step.

    Attributes:
        setup: As given.
        seek_points: Seek points of the JPEGs that loaders have met.
        cache: Encoded images that stay on the device; None where none do.

    Raises:
        LoaderError: Helper processes, or the user's pipeline, cannot do this.
    """

    def __init__(self, setup: Setup, steps: AnySteps) -> None:
        self.setup = setup
        self._kept: Feed | ClipFeed | HelperPool | None = None
        self._process = os.getpid()
        self._job: Job | None = None
        self._is_owner = True
        fetcher, options = setup.fetcher, setup.options
        self.seek_points = open_seek_points(fetcher.dataset)
        self.cache = self._new_cache()
        # Serves all loops, also after one that was left early and its DALI pipeline; so does `_trust`.
        self._refusals = Refusals()
        if (pipeline := options.user_pipeline) is not None:
            pipeline.require_fits(steps.largest, clips=fetcher.clips is not None)
        # A replay makes a copy of the options without helpers.
        if options.execution.helper_process and setup.helpers.count:
            require_helper_process(setup.choice.decoder)
            self._job = make_job(setup, steps, HELPER)
        self._remote = None
        if options.workers is not None:
            from dali_pipes.integrations.ray.remote import RemoteWorkers

            self._remote = RemoteWorkers(setup, steps, options.workers)

    def open(self, largest: int) -> BatchSource:
        """Return what makes the batches of a loop, whose steps have at most `largest` samples."""
        setup, (kept, self._kept) = self.setup, (self._kept, None)
        if self._process != os.getpid():  # what was kept before a fork serves the parent
            kept, self._process = None, os.getpid()
        engines = [Engines(views, setup.fetcher.recorder) for views in setup.variants]
        if self._remote is not None:
            return self._remote.open(engines)
        if self._job is not None:
            pool = kept if isinstance(kept, HelperPool) else HelperPool(self._job)
            return RemoteBatchSource(pool, engines, reusable=pool)
        decoder = setup.choice.decoder
        if setup.options.user_pipeline is not None:
            setup.options.user_pipeline.begin()
        elif decoder == "dali" and not isinstance(kept, Feed | ClipFeed):
            kept = self._feed(largest)
        end_loops_at_exit(decoder)
        return self._pipeline(Augmenter(engines, Workers(setup.fetcher, setup.num_threads)), kept)

    def keep(self, source: BatchSource) -> None:
        """Keep the reusable parts of a finished loop for the next one."""
        self._kept = source.reusable

    def stop(self, source: BatchSource) -> None:
        """End what makes the batches of a loop, but for what is kept."""
        source.close()
        pool = source.reusable
        if isinstance(pool, HelperPool) and pool is not self._kept:
            pool.close()

    def beside(self, setup: Setup, steps: AnySteps) -> "Production":
        """Return one for the same setup, but for its recorder, that shares the remote workers: these fill a cluster."""
        local = Production(replace(setup, options=replace(setup.options, workers=None)), steps)
        local._remote, local._is_owner = self._remote, False
        local.cache = self.cache
        return local

    @property
    def machines(self) -> list[str]:
        """The machines of the remote workers that have started."""
        return [] if self._remote is None else self._remote.machines()

    def close(self) -> None:
        """End what is kept."""
        if self._remote is not None and self._is_owner:
            self._remote.close()
        if isinstance(self._kept, HelperPool):
            self._kept.close()
        self._kept = None
        if self._is_owner:
            self.cache = self._new_cache()  # loops that are under way still read the old one

    def _new_cache(self) -> "DeviceCache | None":
        if self.setup.options.execution.cache != "device":
            return None
        from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache

        return DeviceCache(self.setup.choice.device)

    @cached_property
    def _trust(self) -> "Trust":
        """What DALI refused; it takes a byte for each sample, which only DALI needs."""
        from dali_pipes.decode.dali.trust import Trust

        fetcher = self.setup.fetcher
        length = None if isinstance(fetcher, StreamFetcher) else len(fetcher.dataset)
        return Trust(length, self.seek_points)

    def _pipeline(
        self, augmenter: Augmenter, kept: Feed | ClipFeed | HelperPool | None
    ) -> Pipeline:
        fetcher, options = self.setup.fetcher, self.setup.options
        ahead = self.setup.steps_read_ahead
        decoder: Decoder
        # Each of these brings in modules, some of them Numba, that most loaders never need.
        if options.user_pipeline is not None:
            from dali_pipes.decode.dali.user_decoder import UserImageDecoder

            decoder = UserImageDecoder(fetcher, augmenter, options.user_pipeline)
        elif isinstance(kept, ClipFeed):
            from dali_pipes.video.dali.clip_decoder import DaliClipDecoder

            decoder = DaliClipDecoder(fetcher, augmenter, kept, self._refusals)
        elif isinstance(kept, Feed):
            from dali_pipes.decode.dali.image_decoder import DaliImageDecoder

            decoder = DaliImageDecoder(fetcher, augmenter, kept, self._trust, ahead)
        elif self.setup.choice.decoder == "cuda":
            from dali_pipes.decode.cuda_jpeg.decoder import CudaJpegDecoder
            from dali_pipes.decode.cuda_jpeg.on_gpu import gpu_kernels

            kernels = gpu_kernels(augmenter.device)
            decoder = CudaJpegDecoder(
                *(fetcher, augmenter, kernels, self.seek_points, ahead, self.cache)
            )
        else:
            decoder = CpuDecoder(
                fetcher,
                augmenter.spawn,
                options.execution.prefetch,
                augmenter.workers,
                fast=options.execution.is_fast,
                store=self.seek_points,
            )
            fused = self.setup.choice.engine == "fused" and augmenter.device.type == "cpu"
            compile_ahead(fetcher.variants.recipes if fused else ())
        return Pipeline(fetcher, decoder, augmenter.workers, kept)

    def _feed(self, largest: int) -> Feed | ClipFeed:
        setup = self.setup
        on_gpu = setup.choice.device.type == "cuda"
        device: Literal["mixed", "cpu"] = "mixed" if on_gpu else "cpu"
        device_id = setup.choice.device.index if on_gpu else None
        depth = setup.options.execution.fewest_ahead
        if setup.fetcher.clips is not None:
            # DALI has a decoder at work in each of its threads.
            engines = setup.num_threads if device_id is None else find_nvdec(device_id).engines
            num_threads = min(setup.num_threads, engines)
            return ClipFeed(ClipFeedOptions(largest, device, device_id, num_threads, depth))
        return Feed(
            FeedOptions(
                batch_size=largest,
                antialias=_antialias_of(setup, on_gpu=on_gpu),
                device=device,
                canvases=on_gpu,
                canvas=tuple(
                    tuple(view.recipe.decode_size for view in views) for views in setup.variants
                ),
                device_id=device_id,
                num_threads=setup.num_threads,
                depth=depth,
                hw_decoder_load=setup.options.execution.hw_decoder_load,
            )
        )


def _antialias_of(setup: Setup, *, on_gpu: bool) -> tuple[bool, ...]:
    """Say for each view whether shrinking is low-pass filtered; on a GPU a pipeline of DALI does it in one way.

    Raises:
        LoaderError: The run's recipes do it in different ways, and DALI does it.
    """
    found = [tuple(view.recipe.antialias for view in views) for views in setup.variants]
    if on_gpu and len(set(found)) > 1:
        raise LoaderError(
            'decoder="dali" on a GPU needs recipes that all shrink with antialias, or all without; give them one '
            'antialias=, or use decoder="cpu"'
        )
    return found[0]


@cache
def end_loops_at_exit(decoder: Literal["cpu", "dali", "cuda"]) -> None:  # noqa: ARG001 - once for each
    """See to it that loops which are still there end before Python's modules, and before DALI.

    What is registered last is called first: for "dali" call it when DALI is loaded.
    """

    def end_all() -> None:
        with ExitStack() as all_loops:  # one that raises leaves none open
            for loop in list(LOOPS):
                all_loops.callback(loop.close)
        wait_for_ends()

    atexit.register(end_all)
