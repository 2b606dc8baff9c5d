"""Open the batch source of each loop of a loader, and keep the parts that several loops share."""

import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from dali_pipes.arguments.setup import Setup
from dali_pipes.decode.dali.feed import Feed
from dali_pipes.decode.threaded import CpuDecoder
from dali_pipes.jpeg.seek_point_stores import open_seek_points
from dali_pipes.machine.compile_ahead import compile_ahead
from dali_pipes.stages.augment import Augmenter, Engines
from dali_pipes.stages.dali_feeds import make_feed
from dali_pipes.stages.endings import end_loops_at_exit
from dali_pipes.stages.helper_pool import HelperPool
from dali_pipes.stages.job import HELPER, Job, make_job, require_helper_process
from dali_pipes.stages.pipeline import BatchSource, Decoder, Pipeline
from dali_pipes.stages.shared_batch import RemoteBatchSource
from dali_pipes.stages.threads import Workers
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.steps import AnySteps
from dali_pipes.video.dali.feed import ClipFeed
from dali_pipes.video.dali.support import Refusals

if TYPE_CHECKING:
    from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache
    from dali_pipes.decode.dali.trust import DaliEligibility


class Production:
    """Opens the batch source of each loop: threads, helper processes or remote workers.

    A DALI pipeline or helper processes are reused by the next loop if no steps are in flight. Remote workers serve all loops.

    Args:
        setup: The configuration of the loader.
        steps: The epoch's steps, which determine the largest batch.

    Attributes:
        setup: The configuration of the loader.
        seek_points: Seek points of the JPEGs that loaders have read.
        cache: Encoded images that stay on the device; None without such a cache.

    Raises:
        LoaderError: Helper processes or the user's pipeline cannot make these batches.
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
        # Like `_trust`, the cache serves all loops, even after a loop that was left early has lost its DALI pipeline.
        self._refusals = Refusals()
        if (pipeline := options.user_pipeline) is not None:
            pipeline.require_fits(steps.largest, clips=fetcher.clips is not None)
        # A replay uses a copy of the options without helpers.
        if options.execution.helper_process and setup.helpers.count:
            require_helper_process(setup.choice.decoder)
            self._job = make_job(setup, steps, HELPER)
        self._remote = None
        if options.workers is not None:
            from dali_pipes.integrations.ray.remote import RemoteWorkers

            self._remote = RemoteWorkers(setup, steps, options.workers)

    def open(self, largest: int) -> BatchSource:
        """Return the batch source for a loop whose steps have at most `largest` samples."""
        setup, (kept, self._kept) = self.setup, (self._kept, None)
        if self._process != os.getpid():  # parts from before a fork belong to the parent
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
            kept = make_feed(setup, largest)
        end_loops_at_exit(decoder)
        return self._pipeline(Augmenter(engines, Workers(setup.fetcher, setup.num_threads)), kept)

    def keep(self, source: BatchSource) -> None:
        """Keep the reusable parts of a completed loop for the next loop."""
        self._kept = source.reusable

    def stop(self, source: BatchSource) -> None:
        """Close the batch source of a loop, except the parts that are kept."""
        source.close()
        pool = source.reusable
        if isinstance(pool, HelperPool) and pool is not self._kept:
            pool.close()

    def with_own_recorder(self, setup: Setup, steps: AnySteps) -> "Production":
        """Return a Production for a setup that differs from this one's in the recorder.

        Both share the remote workers, because a second set of workers would not fit on the cluster.
        """
        local = Production(replace(setup, options=replace(setup.options, workers=None)), steps)
        local._remote, local._is_owner = self._remote, False
        local.cache = self.cache
        return local

    @property
    def machines(self) -> list[str]:
        """The names of the machines on which remote workers have started."""
        return [] if self._remote is None else self._remote.machines()

    def close(self) -> None:
        """End the parts that were kept."""
        if self._remote is not None and self._is_owner:
            self._remote.close()
        if isinstance(self._kept, HelperPool):
            self._kept.close()
        self._kept = None
        if self._is_owner:
            # A new one, because running loops still read the old one.
            self.cache = self._new_cache()

    def _new_cache(self) -> "DeviceCache | None":
        if self.setup.options.execution.cache != "device":
            return None
        from dali_pipes.decode.cuda_jpeg.device_cache import DeviceCache

        return DeviceCache(self.setup.choice.device)

    @cached_property
    def _trust(self) -> "DaliEligibility":
        """The samples that DALI refused; created on first use, because it takes a byte per sample."""
        from dali_pipes.decode.dali.trust import DaliEligibility

        fetcher = self.setup.fetcher
        length = None if isinstance(fetcher, StreamFetcher) else len(fetcher.dataset)
        return DaliEligibility(length, self.seek_points)

    def _pipeline(
        self, augmenter: Augmenter, kept: Feed | ClipFeed | HelperPool | None
    ) -> Pipeline:
        fetcher, options = self.setup.fetcher, self.setup.options
        ahead = self.setup.steps_read_ahead
        decoder: Decoder
        # Imported here: each of these imports modules (some of them Numba) that most loaders do not need.
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
            compile_ahead(fetcher.variants.recipes if fused else (), fetcher.has_jpegs)
        return Pipeline(fetcher, decoder, augmenter.workers, kept)
