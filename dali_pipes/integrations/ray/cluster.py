"""A Ray cluster as `readers.prepare.scheduling` wants it, and its failures as sentences."""

import time
import warnings
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import lru_cache
from platform import node
from typing import Any, Generic, TypeVar

from dali_pipes.errors import ClusterError
from dali_pipes.integrations.ray.connect import require_ray
from dali_pipes.integrations.ray.versions import missing_code, require_same, versions
from readers.prepare.errors import TransientError, WorkerLostError
from readers.prepare.executor import Job
from readers.sample import ReadersError
from readers.storage.unreadable import is_transient

Result = TypeVar("Result")

_END_SECONDS = 5.0  # for tasks to end by themselves, before they are killed
_QUIET_SECONDS = 10.0  # without a first place, before a word is said
_GET_SECONDS = 60.0  # for a few kilobytes


class RayCluster(Generic[Result]):
    """The cluster that this process is connected to, working at one job.

    Ray tries nothing again by itself: who counts the attempts is the scheduling alone.

    Args:
        job: Its function goes to the cluster once.
        num_cpus: Cores that a task takes.

    A cluster without any cores is waited for: it may start machines when they are asked for.

    Raises:
        ClusterError: It has cores, and no node has what a task takes, so that Ray would wait for ever.
    """

    def __init__(self, job: Job[Result], num_cpus: float) -> None:
        self._ray = require_ray()
        self._errors: Any = require_ray("ray.exceptions")
        self._job, self._num_cpus = job, num_cpus
        places = self.capacity()
        if places == 0 and any(node.get("CPU", 0) for node in self._nodes()):
            raise ClusterError(self._no_room())
        self._may_be_kept = places > 0 and self._lacks() != ""
        self._since_seconds = time.monotonic()
        self._do = self._ray.put(job.do)
        asked = {"num_cpus": num_cpus, "max_retries": 0, "scheduling_strategy": "SPREAD"}
        if job.task_bytes:
            asked["memory"] = job.task_bytes
        self._remote = self._ray.remote(_carry_out).options(name=job.what, **asked)

    def submit(self, number: int) -> Any:
        """See `readers.prepare.scheduling.Cluster`."""
        # In a list, Ray leaves the function alone until the versions have been compared.
        return self._remote.remote(versions(), [self._do], number)

    def wait(self, handles: Collection[Any], timeout_seconds: float) -> list[Any]:
        """See `readers.prepare.scheduling.Cluster`."""
        if not handles:
            time.sleep(timeout_seconds)
            return []
        done, rest = self._ray.wait(list(handles), timeout=timeout_seconds, fetch_local=False)
        if self._may_be_kept:
            self._tell_of_others(bool(done))
        if done and rest:
            more, _ = self._ray.wait(rest, num_returns=len(rest), timeout=0, fetch_local=False)
            done += more
        return list(done)

    def result(self, handle: Any) -> Result:
        """See `readers.prepare.scheduling.Cluster`.

        Raises:
            ClusterError: A worker has other versions, lacks the code, or cannot be set up.
        """
        try:
            result: Result = self._ray.get(handle, timeout=_GET_SECONDS)
        except self._errors.RayTaskError as error:
            found = error.cause if isinstance(error.cause, Exception) else error
            raise missing_code(found) or found from None
        except self._errors.RayError as error:
            raise self._told(error) from error
        return result

    def cancel(self, handles: Collection[Any]) -> None:
        """See `readers.prepare.scheduling.Cluster`: an interrupt first, so that they take away what they began."""
        if not handles:
            return
        with suppress(self._errors.RayError):
            for handle in handles:
                self._ray.cancel(handle)
            _, rest = self._ray.wait(
                list(handles), num_returns=len(handles), timeout=_END_SECONDS, fetch_local=False
            )
            for handle in rest:
                self._ray.cancel(handle, force=True)

    def capacity(self) -> int:
        """See `readers.prepare.scheduling.Cluster`."""
        return sum(map(self._places, self._nodes()))

    def _tell_of_others(self, has_begun: bool) -> None:
        """Say once that other work keeps what the first task needs; it is waited for.

        What Ray does not tell is which tasks run; but nothing of this job did when all was taken already.
        """
        late = time.monotonic() - self._since_seconds >= _QUIET_SECONDS
        if late and not has_begun and (lacks := self._lacks()):
            warnings.warn(
                f"no {self._job.what} has come for {_QUIET_SECONDS:.0f} seconds: other work kept the Ray cluster busy when "
                f"this began, and {lacks}; that is waited for: let the other work end, or start machines",
                UserWarning,
                stacklevel=2,
            )
            has_begun = True
        self._may_be_kept = not has_begun

    def _lacks(self) -> str:
        """What a task takes and the whole cluster has not got free, in words; "" where it has."""
        asked = {"CPU": self._num_cpus, "memory": self._job.task_bytes}
        free = self._ray.available_resources()
        if all(free.get(name, 0) >= number for name, number in asked.items()):
            return ""
        cores, gigabytes = free.get("CPU", 0), free.get("memory", 0) / 1e9
        memory = f" and {asked['memory'] / 1e9:.1f} GB" * bool(asked["memory"])
        return f"a {self._job.what} takes {asked['CPU']:g} cores{memory}, and {cores:g} cores and {gigabytes:.1f} GB are free"

    def _nodes(self) -> list[dict[str, float]]:
        return [found["Resources"] for found in self._ray.nodes() if found["Alive"]]

    def _places(self, resources: dict[str, float]) -> int:
        places = resources.get("CPU", 0) / self._num_cpus
        if self._job.task_bytes:
            places = min(places, resources.get("memory", 0) / self._job.task_bytes)
        return int(places)

    def _no_room(self) -> str:
        nodes = self._nodes()
        cores, size_bytes = (
            max((one.get(name, 0) for one in nodes), default=0) for name in ("CPU", "memory")
        )
        memory = f" and {self._job.task_bytes / 1e9:.1f} GB of memory" * bool(self._job.task_bytes)
        return (
            f"a {self._job.what} takes {self._num_cpus:g} cores{memory}, and no node of the Ray cluster has that (the most "
            f"are {cores:g} cores and {size_bytes / 1e9:.1f} GB, on {len(nodes)} nodes): let the tasks take less, smaller "
            "shards for instance, or start a larger node"
        )

    def _told(self, error: Exception) -> Exception:
        """What an error of Ray's means, in words: a worker that was lost, or a cluster that cannot work."""
        kinds = self._errors
        words = " ".join(str(error).split())[:300] or type(error).__name__
        if isinstance(error, (kinds.RuntimeEnvSetupError, kinds.TaskUnschedulableError)):
            return ClusterError(f"no worker of the Ray cluster can begin ({words})")
        for kind, text in (
            (kinds.OutOfMemoryError, "its node ran out of memory, so Ray killed it"),
            (kinds.NodeDiedError, "its node died"),
            (kinds.WorkerCrashedError, "its worker process died: killed, or out of memory"),
            (kinds.ObjectLostError, "its answer was lost with the node that held it"),
            (kinds.GetTimeoutError, "its answer did not arrive"),
        ):
            if isinstance(error, kind):
                return WorkerLostError(f"{text} ({words})")
        return WorkerLostError(words)


def _carry_out(driver: dict[str, str], do: list[Any], number: int) -> Any:
    """Carry out a task in a worker.

    Raises:
        TransientError: The storage failed.
        ClusterError: The driver has other versions.
    """
    _compare(tuple(driver.items()))
    try:
        return _fetch(do[0])(number)
    except Exception as error:
        if isinstance(error, ReadersError) and is_transient(error):
            # Pickled, it would not tell what it was raised in place of.
            error = TransientError(str(error))
        error.add_note(f"on {node()}")
        raise error


@lru_cache(maxsize=4)
def _compare(driver: tuple[tuple[str, str], ...]) -> None:
    require_same(dict(driver))


@lru_cache(maxsize=1)
def _fetch(do: Any) -> Callable[[int], Any]:
    function: Callable[[int], Any] = require_ray().get(do, timeout=_GET_SECONDS)
    return function
