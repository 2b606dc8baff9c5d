"""Preparing data on a Ray cluster: one task of Ray for each shard."""

from collections.abc import Iterator
from typing import TypeVar

from dali_pipes.integrations.ray.cluster import RayCluster
from dali_pipes.integrations.ray.connect import connect
from readers.prepare.executor import Job
from readers.prepare.scheduling import TRANSIENT, Policy, run_tasks

Result = TypeVar("Result")


class RayExecutor:
    """The machines of a Ray cluster, each task on as many cores as it needs, spread over the nodes.

    Args:
        address: Of the cluster, as for `dali_pipes.integrations.ray.connect.connect`.
        num_cpus: Cores that a task takes; it may be a half.
        max_retries: How often a task is tried again that raised one of `retried`; a task whose worker or node died is
            tried again as well, and counted apart.
        retried: What may pass.
        in_flight: Most tasks that are handed to Ray at a time; twice as many as can run when None.

    Example:
        >>> from dali_pipes.integrations.ray.executor import RayExecutor
        >>> from dali_pipes.decode.check import CHECKS
        >>> from readers.prepare import inspect
        >>> executor = RayExecutor("127.0.0.1:1", num_cpus=2)  # which connects when there is work
        >>> inspect("photos/", verify=CHECKS, executor=executor)  # and nobody is there
        Traceback (most recent call last):
        ClusterError: ...
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: float = 1,
        max_retries: int = 3,
        retried: tuple[type[Exception], ...] = TRANSIENT,
        in_flight: int | None = None,
    ) -> None:
        self._address, self._num_cpus = address, num_cpus
        self._policy = Policy(in_flight, max_retries, retried)

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """See `readers.prepare.executor.Executor.run`.

        Raises:
            MissingPackageError: Ray is not installed.
            ClusterError: The cluster cannot be reached, none of its nodes has what a task takes, or a worker has other
                versions.
            PrepareError: A task could not be done; those that were done stay done.
        """
        connect(self._address)
        yield from run_tasks(job, RayCluster(job, self._num_cpus), self._policy)
