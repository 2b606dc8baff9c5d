"""Which tasks a cluster is given and when, how often they are tried, and what comes of those that fail.

Nothing here knows what the cluster is: Ray's is in `dali_pipes.integrations.ray`; tests simulate one with a clock of its own.
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

_PER_PLACE = 2  # tasks in flight for each that can run: the next one is there when one ends
_LOOK_SECONDS = 5.0  # between looks at the cluster's size
_QUIET_SECONDS = 10.0  # without a place, before a word is said
_MOST_ROOMLESS_SECONDS = 900.0
"""Without a place, before that is the end: a cloud replaces a machine within minutes, and what is done is kept."""
_FIRST_PAUSE_SECONDS = 0.5  # before a task that failed is tried again; doubled each time
_LONGEST_PAUSE_SECONDS = 30.0
_SHORTEST_SECONDS = 0.01  # so that rounding cannot make the wait for a moment endless
_MOST_FAILED = 10
_AGAIN = "run the same command again"
_NUM_DURATIONS = 256
TRANSIENT = (OSError, TransientError)
"""Errors that another attempt may not meet."""


class Cluster(Protocol[Handle, Answer]):
    """Machines that carry out the tasks of one job."""

    def submit(self, number: int) -> Handle:
        """Begin a task, or let it wait until there is a place for it."""

    def wait(self, handles: Collection[Handle], timeout_seconds: float) -> list[Handle]:
        """Return those that have ended, as soon as there is one; none after the time, however few are given."""

    def result(self, handle: Handle) -> Answer:
        """Return what a task that has ended returned, or raise what it raised.

        Raises:
            WorkerLostError: Not the task failed but who carried it out.
        """

    def cancel(self, handles: Collection[Handle]) -> None:
        """End tasks, and return when they have."""

    def capacity(self) -> int:
        """How many tasks can run at a time now."""


@dataclass(frozen=True)
class Policy:
    """What is done about failures, and how much is asked for at a time.

    Attributes:
        in_flight: Tasks that are handed over and have not ended; twice as many as can run when None.
        max_retries: How often a task is tried again that raised one of `retried`.
        retried: What may pass: by default what the operating system and stores report of files and networks.
        max_losses: How often a task is tried again that lost its worker. Machines end by themselves, so this is more;
            but a task that takes too much memory ends them too.
        overtake: When no task is left to begin and places are free, a task that takes so many times as long as they
            most often do is begun a second time; never when None. Done twice does no harm, and the first answer counts.
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
    """Carry out every task of a job on a cluster, and yield its number and result as it is done.

    A task that failed for good is set aside and named when the others are done, so that one bad shard costs no night;
    when the tenth fails, something is wrong with all of them, and that is the end at once. So is any error that is
    neither one of the retried nor meant for people, which is a defect: it is raised as it is.

    When no machine has a place any more, a warning says so, and after a quarter of an hour that is the end.

    What is held is what is in flight, and the number of each task that was tried more than once and is not done.

    Args:
        job: The tasks.
        cluster: Who carries them out. Nothing is left running there, however this ends.
        policy: What is done about failures.
        clock: Seconds that go on while the cluster is waited for.

    Raises:
        PrepareError: Tasks could not be done, or there is no place for them; those that were done stay done.
    """
    run = _Run(job, cluster, policy, clock)
    try:
        yield from run.results()
    finally:
        cluster.cancel(run.begun.keys())


@dataclass(slots=True)
class _Open:
    """A task that was begun and is not done: copies in flight, errors of its own, workers that it lost."""

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
        self._next = 0  # place in job.numbers, which may be a range: nothing is copied
        self._open: dict[int, _Open] = {}
        self._due: list[tuple[float, int]] = []  # a heap of tasks that are tried again, and when
        self._failed: dict[int, Exception] = {}
        self._durations: deque[float] = deque(maxlen=_NUM_DURATIONS)
        self._places, self._looked_seconds = 0, float("-inf")
        self._room_seconds, self._has_warned = clock(), False  # when there was a place last
        self.begun: dict[Any, tuple[int, float]] = {}  # handle: task and when it was handed over

    def results(self) -> Iterator[tuple[int, Result]]:
        """See `run_tasks`."""
        while self._open or self._next < len(self._job.numbers):
            self._look()
            self._hand_over()
            for handle in self._cluster.wait(self.begun.keys(), self._pause_seconds()):
                yield from self._take(handle)
        if self._failed:
            raise self._failure()

    def _look(self) -> None:
        now = self._clock()
        if now - self._looked_seconds >= _LOOK_SECONDS:
            self._places, self._looked_seconds = self._cluster.capacity(), now
            self._miss_places(now)

    def _miss_places(self, now: float) -> None:
        """Say that no machine is left, and give up in the end.

        Raises:
            PrepareError: There has been no place for too long.
        """
        if self._places:
            self._room_seconds, self._has_warned = now, False
            return
        roomless_seconds, minutes = now - self._room_seconds, _MOST_ROOMLESS_SECONDS / 60
        none = f"no machine of the cluster has had room for a {self._job.what}"
        if roomless_seconds >= _MOST_ROOMLESS_SECONDS:
            raise PrepareError(
                f"{none} for {minutes:g} minutes; what is done stays done: start machines, and {_AGAIN} to go on"
            )
        if roomless_seconds >= _QUIET_SECONDS and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{none} for {roomless_seconds:.0f} seconds: start machines; they are waited for, {minutes:g} minutes at "
                "most",
                UserWarning,
                stacklevel=2,
            )

    def _pause_seconds(self) -> float:
        if not self._due:
            return _LOOK_SECONDS
        return min(_LOOK_SECONDS, max(_SHORTEST_SECONDS, self._due[0][0] - self._clock()))

    def _hand_over(self) -> None:
        limit = self._policy.in_flight or max(1, _PER_PLACE * self._places)
        while len(self.begun) < limit:
            if self._due and self._due[0][0] <= self._clock():
                self._begin(heapq.heappop(self._due)[1])
            elif self._next < len(self._job.numbers):
                self._next += 1
                self._begin(self._job.numbers[self._next - 1])
            else:
                self._overtake(min(limit, self._places) - len(self.begun))
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
        if number not in self._open:  # its other copy came first
            return
        try:
            result = self._cluster.result(handle)
        except Exception as error:  # noqa: BLE001, judged there
            self._note(number, error)
            return
        del self._open[number]
        self._durations.append(self._clock() - begun)
        yield number, result

    def _note(self, number: int, error: Exception) -> None:
        """Try a task again that failed, or set it aside.

        Raises:
            PrepareError: Too many have failed.
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
        if task.copies:  # which may do it yet
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
        told = _AGAIN in str(error)  # once is enough
        failure = PrepareError(
            f"{of_all} could not be done, the first is number {number}{place}: {error}; what is done stays done"
            + f": {advice}" * (not told)
        )
        failure.__cause__ = error
        return failure
