"""Manage the workers of a loader on a Ray cluster: the first loop starts them, and later loops reuse them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dali_pipes.arguments.setup import Setup
from dali_pipes.errors import LoaderError
from dali_pipes.integrations.ray.cluster import require_ray
from dali_pipes.integrations.ray.worker_pool import WorkerPool
from dali_pipes.integrations.ray.workers import RayWorkers
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.job import RemoteArgument, make_job, pickled
from dali_pipes.stages.shared_batch import RemoteBatchSource
from dali_pipes.steps.streams.fetch import StreamFetcher
from dali_pipes.steps.streams.steps import AnySteps


class RemoteWorkers:
    """Opens the batch sources of a loader whose batches are made on a Ray cluster.

    Args:
        setup: The configuration of the loader.
        steps: The steps of the loader, which determine the size of the largest batch.
        workers: The user's choice of workers.

    Raises:
        MissingPackageError: Ray is not installed.
        LoaderError: Remote workers do not support the loader's arguments.
    """

    def __init__(self, setup: Setup, steps: AnySteps, workers: RayWorkers) -> None:
        _require_remote(setup)
        dumps = require_ray(
            "ray.cloudpickle"
        ).dumps  # cloudpickle also pickles classes of the user's script
        self._workers = workers
        self._asker = RemoteArgument("workers=RayWorkers(...)", "workers", dumps)
        job = make_job(setup, steps, self._asker)
        self._job = replace(job, setup=replace(job.setup, num_threads=workers.num_threads))
        self._pool: WorkerPool | None = None

    def open(self, variants: Sequence[Engines]) -> RemoteBatchSource:
        """Return the batch source of a loop.

        Raises:
            ClusterError: The cluster cannot be reached, or has no machine or not enough resources for the workers.
        """
        if self._pool is None or not self._pool.is_alive:
            data = np.frombuffer(pickled(self._job, "the job", self._asker), np.uint8)
            self._pool = WorkerPool(self._workers, self._job, data)
        return RemoteBatchSource(self._pool, variants)

    def machines(self) -> list[str]:
        """Return the names of the machines on which workers have started."""
        return [] if self._pool is None else self._pool.machines()

    def close(self) -> None:
        """End the workers; the next loop starts new ones."""
        if self._pool is not None:
            self._pool.close()
        self._pool = None


def _require_remote(setup: Setup) -> None:
    """Raise if remote workers do not support the loader's arguments.

    Raises:
        LoaderError: An argument is not supported; the message names it.
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
