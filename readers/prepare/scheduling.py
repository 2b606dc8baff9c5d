"""Schedule the tasks of a job on a cluster: submit them, retry them, and report those that failed.

Any cluster can be used through `Cluster`: Ray's is in `dali_pipes.integrations.ray`; tests simulate one with its own clock.
"""

import heapq
import time
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from readers.plural import counted
from readers.prepare.errors import PrepareError, TransientError, WorkerLostError
from readers.prepare.job import Job
from readers.sample import ReadersError

Handle = TypeVar("Handle")
Result = TypeVar("Result")
Answer = TypeVar("Answer", covariant=True)

# Submitted tasks for each task that can run at a time, so that a machine has the next task when one ends.
_PER_SLOT = 2
# Time between requests for the capacity of the cluster, which cost a round trip each.
_LOOK_SECONDS = 5.0
# Time without capacity before a warning: a cluster that grows on demand is often empty for seconds.
_QUIET_SECONDS = 10.0
# Time without capacity before the job fails: a cloud replaces a machine within minutes.
_MOST_IDLE_SECONDS = 900.0
# Time before a failed task is tried again. It doubles each time, because an overloaded server needs time.
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# Shortest wait, so that rounding cannot turn the wait for a point in time into an endless loop.
_SHORTEST_SECONDS = 0.01
# Number of failed tasks that ends the job: so many failures probably have one cause.
_MOST_FAILED = 10
# Number of last durations in the median: enough to be stable, few enough to follow a change of the machines.
_NUM_DURATIONS = 256
_AGAIN = "run the same command again"
TRANSIENT = (OSError, TransientError)
"""Errors that may go away in another attempt."""


class Cluster(Protocol[Handle, Answer]):
    """The interface of a cluster of machines that carries out the tasks of one job."""

    def submit(self, number: int) -> Handle:
        """Submit the task with this number, and return a handle; the task begins when a machine has room for it."""

    def wait(self, handles: Collection[Handle], timeout_seconds: float) -> list[Handle]:
        """Wait until a task has ended, and return the handles of all tasks that have ended.

        After `timeout_seconds` without such a task, return an empty list; also wait so long if no handles are given.
        """

    def result(self, handle: Handle) -> Answer:
        """Return the result of a task that has ended, or raise its exception.

        Raises:
            WorkerLostError: The worker process or its machine ended during the task.
        """

    def cancel(self, handles: Collection[Handle]) -> None:
        """Cancel tasks, and wait until they have ended."""

    def capacity(self) -> int:
        """Return the number of tasks that the cluster can run at the same time now."""


@dataclass(frozen=True)
class Policy:
    """Limits for retries, and for the number of tasks that are submitted to a cluster.

    Attributes:
        in_flight: Largest number of submitted tasks that have not ended; None is twice the number that can run at a time.
        max_retries: How often a task is tried again after an error of `retried`.
        retried: Types of errors that may go away; by default those of files, networks and object stores.
        max_losses: How often a task is tried again after it lost its worker. It is higher than `max_retries`, because
            machines often end for other reasons; it is limited, because a task that takes too much memory ends its machine.
        overtake: When all tasks have begun and machines are free, a task that takes longer than this multiple of the
            median duration is started a second time, and the first result counts. None starts no task twice.
    """

    in_flight: int | None = None
    max_retries: int = 3
    retried: tuple[type[Exception], ...] = TRANSIENT
    max_losses: int = 8
    overtake: float | None = 2.0


def run_tasks(
    job: Job[Result],
    cluster: Cluster[Any, Result],
    policy: Policy = Policy(),
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[int, Result]]:
    """Carry out every task of a job on a cluster, and yield the number and result of each task when it is done.

    If a task fails in all of its attempts, the others are still carried out before the error is raised, so that one bad
    shard does not cost a night. The tenth such task ends the job at once, because all of them probably have one cause. An
    error that is neither in `Policy.retried` nor a ReadersError or OSError is a bug, and is raised at once, unchanged.

    If no machine has room for a task for 10 seconds, a warning is given; after 15 minutes the job fails.

    Args:
        job: The tasks.
        cluster: Carries out the tasks. No task is left running there when the job ends.
        policy: Limits for retries and for submitted tasks.
        clock: Returns the time in seconds; a simulated clock must advance during `Cluster.wait`.

    Raises:
        PrepareError: Tasks failed, or no machine has room for them; finished tasks stay done.
    """
    run = _Run(job, cluster, policy, clock)
    try:
        yield from run.results()
    finally:
        cluster.cancel(run.begun.keys())


@dataclass(slots=True)
class _Open:
    """The state of a task that has begun and is not done.

    Attributes:
        copies: Number of submitted copies of the task that have not ended.
        errors: Number of attempts that raised an error.
        losses: Number of attempts that lost their worker.
    """

    copies: int = 0
    errors: int = 0
    losses: int = 0


class _Run(Generic[Result]):
    def __init__(
        self,
        job: Job[Result],
        cluster: Cluster[Any, Result],
        policy: Policy,
        clock: Callable[[], float],
    ) -> None:
        self._job, self._cluster, self._policy, self._clock = job, cluster, policy, clock
        self._next = 0  # position in job.numbers, which may be a large range, and is not copied
        self._open: dict[int, _Open] = {}
        # A heap of (time, task) for tasks that are tried again.
        self._due: list[tuple[float, int]] = []
        self._failed: dict[int, Exception] = {}
        self._durations: deque[float] = deque(maxlen=_NUM_DURATIONS)
        self._capacity, self._looked_seconds = 0, float("-inf")
        self._busy_seconds, self._has_warned = clock(), False  # last time with capacity
        self.begun: dict[Any, tuple[int, float]] = {}  # handle: task and time of its submission

    def results(self) -> Iterator[tuple[int, Result]]:
        while self._open or self._next < len(self._job.numbers):
            self._look()
            self._submit()
            for handle in self._cluster.wait(self.begun.keys(), self._pause_seconds()):
                yield from self._take(handle)
        if self._failed:
            raise self._failure()

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked_seconds >= _LOOK_SECONDS:
            self._capacity, self._looked_seconds = self._cluster.capacity(), now
            self._check_capacity(now)

    def _check_capacity(self, now: float) -> None:
        """Warn once if the cluster has had no capacity for 10 seconds.

        Args:
            now: The current time in seconds.

        Raises:
            PrepareError: The cluster has had no capacity for 15 minutes.
        """
        if self._capacity:
            self._busy_seconds, self._has_warned = now, False
            return
        idle_seconds, minutes = now - self._busy_seconds, _MOST_IDLE_SECONDS / 60
        none = f"no machine of the cluster has had room for a {self._job.what}"
        if idle_seconds >= _MOST_IDLE_SECONDS:
            raise PrepareError(
                f"{none} for {minutes:g} minutes; what is done stays done: start machines, and {_AGAIN} to go on"
            )
        if idle_seconds >= _QUIET_SECONDS and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{none} for {idle_seconds:.0f} seconds: start machines; the job waits for {minutes:g} minutes at "
                "most",
                UserWarning,
                stacklevel=2,
            )

    def _pause_seconds(self) -> float:
        if not self._due:
            return _LOOK_SECONDS
        return min(_LOOK_SECONDS, max(_SHORTEST_SECONDS, self._due[0][0] - self._clock()))

    def _submit(self) -> None:
        limit = self._policy.in_flight or max(1, _PER_SLOT * self._capacity)
        while len(self.begun) < limit:
            if self._due and self._due[0][0] <= self._clock():
                self._begin(heapq.heappop(self._due)[1])
            elif self._next < len(self._job.numbers):
                self._next += 1
                self._begin(self._job.numbers[self._next - 1])
            else:
                self._overtake(min(limit, self._capacity) - len(self.begun))
                return

    def _begin(self, number: int) -> None:
        handle = self._cluster.submit(number)
        self.begun[handle] = (number, self._clock())
        self._open.setdefault(number, _Open()).copies += 1

    def _overtake(self, num_free: int) -> None:
        if self._policy.overtake is None or not self._durations or num_free < 1:
            return
        latest = self._clock() - self._policy.overtake * median(self._durations)
        late = {number for number, begun in self.begun.values() if begun < latest}
        alone = [
            number for number in late if number in self._open and self._open[number].copies == 1
        ]
        for number in alone[:num_free]:
            self._begin(number)

    def _take(self, handle: Any) -> Iterator[tuple[int, Result]]:
        number, begun = self.begun.pop(handle)
        if number not in self._open:  # its other copy was faster
            return
        try:
            result = self._cluster.result(handle)
        except Exception as error:  # noqa: BLE001  # defects are raised again
            self._handle_error(number, error)
            return
        del self._open[number]
        self._durations.append(self._clock() - begun)
        yield number, result

    def _handle_error(self, number: int, error: Exception) -> None:
        """Handle the error of an attempt: schedule another attempt, or count the task as failed.

        Raises:
            PrepareError: Ten tasks have failed.
        """
        task, policy = self._open[number], self._policy
        task.copies -= 1
        if isinstance(error, WorkerLostError):
            task.losses += 1
            again = task.losses <= policy.max_losses
        else:
            task.errors += 1
            again = isinstance(error, policy.retried) and task.errors <= policy.max_retries
            if not isinstance(error, (ReadersError, OSError, *policy.retried)):
                raise error
        if task.copies:  # the other copy may succeed
            return
        if again:
            pause = _FIRST_PAUSE_SECONDS * 2 ** (task.errors + task.losses - 1)
            heapq.heappush(self._due, (self._clock() + min(pause, _LONGEST_PAUSE_SECONDS), number))
            return
        del self._open[number]
        self._failed[number] = error
        if len(self._failed) == _MOST_FAILED:
            raise self._failure()

    def _failure(self) -> PrepareError:
        number, error = min(self._failed.items(), key=lambda item: item[0])
        place = "".join(f", {note}" for note in getattr(error, "__notes__", []))
        of_all = f"{len(self._failed)} of {counted(len(self._job.numbers), self._job.what)}"
        advice = f"mend this, and {_AGAIN} to go on"
        has_advice = _AGAIN in str(error)
        failure = PrepareError(
            f"{of_all} could not be done, the first is number {number}{place}: {error}; what is done stays done"
            + f": {advice}" * (not has_advice)
        )
        failure.__cause__ = error
        return failure
