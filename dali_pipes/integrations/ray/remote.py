"""Remote: the workers of a loader on a Ray cluster, started by its first loop and kept for all others."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.producer import RayBatchSource
from dali_pipes.integrations.ray.worker_pool import Crew
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.job import Asker, make_job, pickled
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.steps import AnySteps


class Remote:
    """Makes what takes the steps of loops from remote workers.

    Args:
        setup: The configuration of the loader.
        steps: Say how many samples are worked on in a step.
        workers: Who makes them.

    Raises:
        MissingPackageError: Ray is not installed.
        LoaderError: This cannot be done by remote workers.
    """

    def __init__(self, setup: Setup, steps: AnySteps, workers: RayWorkers) -> None:
        _require_remote(setup)
        dumps = require_ray("ray.cloudpickle").dumps  # also classes of the script that is run
        self._workers = workers
        self._asker = Asker("workers=RayWorkers(...)", "workers", dumps)
        job = make_job(setup, steps, self._asker)
        self._job = replace(job, setup=replace(job.setup, num_threads=workers.num_threads))
        self._crew: Crew | None = None

    def open(self, variants: Sequence[Engines]) -> RayBatchSource:
        """Return what takes the steps of a loop.

        Raises:
            ClusterError: The cluster cannot be reached, or has no machine or no room for this.
        """
        if self._crew is None or not self._crew.is_alive:
            data = np.frombuffer(pickled(self._job, "the job", self._asker), np.uint8)
            self._crew = Crew(self._workers, self._job, data)
        return RayBatchSource(self._crew, self._job.frames, variants)

    def machines(self) -> list[str]:
        """The machines of the workers that have started."""
        return [] if self._crew is None else self._crew.machines()

    def close(self) -> None:
        """End the workers; the next loop starts others."""
        if self._crew is not None:
            self._crew.close()
        self._crew = None


def _require_remote(setup: Setup) -> None:
    """Refuse what remote workers cannot do.

    Raises:
        LoaderError: The text says what to leave out.
    """
    if setup.choice.decoder != "cpu":
        name = "from_dali(...)" if setup.options.user_pipeline is not None else '"dali"'
        raise LoaderError(
            f'workers=RayWorkers(...) decodes with decoder="cpu", and decoder is {name}: give decoder="cpu", or leave '
            "workers out"
        )
    if isinstance(setup.fetcher, StreamFetcher):
        raise LoaderError(
            "workers=RayWorkers(...) needs samples that can be read at random, and this is a stream, which is read forward: "
            "make shards of it with gpu-aug pack SOURCE FOLDER, or leave workers out"
        )
