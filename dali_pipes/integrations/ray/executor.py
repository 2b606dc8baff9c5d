"""Prepare data on a Ray cluster, with one Ray task per part."""

import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from platform import node
from typing import Any, Generic, TypeVar

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.cluster import (
    Resources,
    connect,
    describe,
    first_line,
    machine_resources,
    require_machine,
    require_ray,
    shortage,
)
from dali_pipes.integrations.ray.consistency import missing_code, require_same_versions, versions
from readers.prepare.errors import TransientError, WorkerLostError
from readers.prepare.job import Job
from readers.prepare.scheduling import TRANSIENT, Policy, run_tasks
from readers.sample import ReadersError
from readers.storage.unreadable import is_transient

Result = TypeVar("Result")

# Time for cancelled tasks to remove their temporary files before Ray kills them.
_CANCEL_SECONDS = 5.0
# Time without a result on a busy cluster before a warning; an idle cluster returns the first part sooner.
_QUIET_SECONDS = 10.0
# Time limit for fetching a result of a few kilobytes from another machine.
_GET_SECONDS = 60.0


class RayExecutor:
    """Runs the parts of a job as tasks spread over the machines of a Ray cluster.

    Args:
        address: Address of the cluster; see `dali_pipes.integrations.ray.cluster.connect`.
        num_cpus: CPU cores per task; may be a fraction.
        max_retries: How often a task that raised one of `retried` is retried. Retries after a worker or machine died
            are counted separately.
        retried: Types of errors after which a task is retried, because they may go away.
        in_flight: Largest count of tasks that Ray has at a time; None allows twice as many as can run.

    Example:
        >>> from dali_pipes.integrations.ray.executor import RayExecutor
        >>> from dali_pipes.decode.check import CHECKS
        >>> from readers.prepare import inspect
        >>> executor = RayExecutor("127.0.0.1:1", num_cpus=2)  # connects when there is work
        >>> inspect("photos/", verify=CHECKS, executor=executor)  # no cluster listens there
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
        """Run all parts of a job on the cluster, and yield (number, result) of each part as it is done.

        Raises:
            MissingPackageError: Ray is not installed.
            ClusterError: The cluster cannot be reached, no machine has the resources of a task, or a worker has other
                versions.
            PrepareError: A task failed permanently; the results of other tasks are kept.
        """
        connect(self._address)
        yield from run_tasks(job, RayCluster(job, self._num_cpus), self._policy)


class RayCluster(Generic[Result]):
    """A connected cluster for the scheduler; implements `readers.prepare.scheduling.Cluster`.

    Ray itself retries nothing: the scheduler counts the attempts. A cluster without any cores is accepted, because it
    may start machines on demand.

    Args:
        job: The job; its function is sent to the cluster once.
        num_cpus: CPU cores per task; may be a fraction.

    Raises:
        ClusterError: The cluster has cores, but no machine has the resources of a task.
    """

    def __init__(self, job: Job[Result], num_cpus: float) -> None:
        self._ray = require_ray()
        self._errors: Any = require_ray("ray.exceptions")
        self._what = job.what
        self._wanted: Resources = {"CPU": num_cpus}
        options: dict[str, Any] = {"num_cpus": num_cpus}
        if job.task_bytes:
            self._wanted = {**self._wanted, "memory": job.task_bytes}
            options["memory"] = job.task_bytes
        require_machine(f"a {job.what}", self._wanted)
        self._began_seconds = time.monotonic()
        self._waits_for_others = self.capacity() > 0 and bool(shortage(self._wanted))
        self._function = self._ray.put(job.do)
        self._task = self._ray.remote(_carry_out).options(
            name=job.what, max_retries=0, scheduling_strategy="SPREAD", **options
        )

    def submit(self, number: int) -> Any:
        """Submit the task for the part with index `number`, and return the task's handle."""
        # In a list, because Ray does not resolve references in lists: the function is unpickled only after the versions were compared.
        return self._task.remote(versions(), [self._function], number)

    def wait(self, handles: Collection[Any], timeout_seconds: float) -> list[Any]:
        """Wait for at least one task, up to a timeout; return the handles of finished tasks."""
        if not handles:
            time.sleep(timeout_seconds)
            return []
        done, rest = self._ray.wait(list(handles), timeout=timeout_seconds, fetch_local=False)
        if self._waits_for_others:
            self._warn_of_others(has_begun=bool(done))
        if done and rest:
            more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0, fetch_local=False)
            done += more
        return list(done)

    def result(self, handle: Any) -> Result:
        """Return the result of a finished task, or raise its error.

        Raises:
            ClusterError: A worker has other versions, lacks the code, or cannot be set up.
        """
        errors = self._errors
        try:
            result: Result = self._ray.get(handle, timeout=_GET_SECONDS)
        except errors.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            raise missing_code(cause) or cause from None
        except (errors.RuntimeEnvSetupError, errors.TaskUnschedulableError) as error:
            raise ClusterError(
                f"no worker of the Ray cluster can begin ({first_line(error)})"
            ) from error
        except errors.RayError as error:
            raise WorkerLostError(f"its worker was lost ({first_line(error)})") from error
        return result

    def cancel(self, handles: Collection[Any]) -> None:
        """Cancel tasks: interrupt them first, so that they remove their temporary files."""
        if not handles:
            return
        # The job is already ending with its result or an error; the loss of a worker must not hide that.
        with suppress(self._errors.RayError):
            for handle in handles:
                self._ray.cancel(handle)
            _, rest = self._ray.wait(
                list(handles), num_returns=len(handles), timeout=_CANCEL_SECONDS, fetch_local=False
            )
            for handle in rest:
                self._ray.cancel(handle, force=True)

    def capacity(self) -> int:
        """Return how many tasks can run at the same time."""
        return sum(
            int(min(machine.get(name, 0) / amount for name, amount in self._wanted.items()))
            for machine in machine_resources()
        )

    def _warn_of_others(self, *, has_begun: bool) -> None:
        """Warn once if other work has occupied the cluster since before this job started.

        Ray does not report which tasks run. But no task of this job can be running while there is no result and nothing is free.
        """
        if not has_begun and time.monotonic() - self._began_seconds < _QUIET_SECONDS:
            return
        self._waits_for_others = False
        if not has_begun and (free := shortage(self._wanted)):
            warnings.warn(
                f"no {self._what} has come for {_QUIET_SECONDS:.0f} seconds: other work occupies the Ray cluster. A "
                f"{self._what} needs {describe(self._wanted)}, and {free} are free. The job "
                "waits: let the other work end, or start machines",
                UserWarning,
                stacklevel=2,
            )


def _carry_out(driver: dict[str, str], function: list[Any], number: int) -> Any:
    """Run the task for the part with index `number` in a worker, and return its result.

    Raises:
        TransientError: The storage failed with a transient error.
        ClusterError: The driver has other versions.
    """
    require_same_versions(driver)
    try:
        return _fetch(function[0])(number)
    except Exception as error:
        if isinstance(error, ReadersError) and is_transient(error):
            # Pickling an error drops its cause, which marks it as transient.
            error = TransientError(str(error))
        error.add_note(f"on {node()}")
        raise error


@lru_cache(maxsize=1)
def _fetch(function: Any) -> Callable[[int], Any]:
    """Return the function of a job, unpickled; successive tasks of a worker share the result."""
    fetched: Callable[[int], Any] = require_ray().get(function, timeout=_GET_SECONDS)
    return fetched
