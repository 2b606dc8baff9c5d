"""The scheduling of tasks on a cluster, driven by a clock that costs no time."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

import pytest

from readers.prepare.errors import PrepareError, WorkerLostError
from readers.prepare.job import Job
from readers.prepare.scheduling import Policy, run_tasks
from tests.support.memory import peak_bytes

Do = Callable[[int, int], int]
"""A task: gets its number and which attempt this is, from 0 on."""


def double(number: int, _: int) -> int:
    """Be a task that succeeds."""
    return 2 * number


@dataclass
class Fake:
    """A cluster whose places each take a second for a task; handles are (number, attempt)."""

    do: Do
    places: int = 2
    slow: dict[tuple[int, int], float] = field(default_factory=dict)
    now: float = 0.0
    most: int = 0
    attempts: dict[int, int] = field(default_factory=dict)
    ends: dict[tuple[int, int], float] = field(default_factory=dict)
    cancelled: list[tuple[int, int]] = field(default_factory=list)

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def submit(self, number: int) -> tuple[int, int]:
        """Begin a task."""
        handle = number, self.attempts.get(number, 0)
        self.attempts[number] = handle[1] + 1
        self.ends[handle] = self.now + self.slow.get(handle, 1.0)
        return handle

    def wait(
        self, handles: Collection[tuple[int, int]], timeout_seconds: float
    ) -> list[tuple[int, int]]:
        """Go on to the next end."""
        self.most = max(self.most, len(handles))
        assert timeout_seconds > 0
        assert self.now < 10_000, "it hangs"
        first = min((self.ends[handle] for handle in handles), default=float("inf"))
        self.now = min(max(first, self.now), self.now + timeout_seconds)
        return [handle for handle in handles if self.ends[handle] <= self.now]

    def result(self, handle: tuple[int, int]) -> int:
        """Do the task."""
        del self.ends[handle]
        return self.do(*handle)

    def cancel(self, handles: Collection[tuple[int, int]]) -> None:
        """End tasks."""
        self.cancelled += handles

    def capacity(self) -> int:
        """How many places there are."""
        return self.places


def run(fake: Fake, count: int, policy: Policy | None = None) -> Iterator[tuple[int, int]]:
    """Run a job of `count` shards."""
    return run_tasks(Job(abs, range(count), what="shard"), fake, policy or Policy(), fake.clock)


def fail(error: Exception, times: int = 10**9, only: int | None = None) -> Do:
    """Return a task whose first attempts raise an error, those of every number or of one."""

    def attempt(number: int, attempt: int) -> int:
        if attempt < times and only in (None, number):
            raise error
        return number

    return attempt


@pytest.mark.parametrize(("in_flight", "most"), [(None, 6), (1, 1)])
def test_every_task_is_done_once_and_few_are_in_flight(in_flight: int | None, most: int) -> None:
    """Twice as many as there are places, or as many as `--workers` says."""
    fake = Fake(double, places=3)

    done = list(run(fake, 100, Policy(in_flight=in_flight)))

    assert (sorted(done), fake.most) == ([(number, 2 * number) for number in range(100)], most)
    assert set(fake.attempts.values()) == {1}


def test_results_are_handed_over_before_all_tasks_have_begun() -> None:
    """A consumer sees the first of a million tasks as it is done; when it stops, nothing is left on the cluster."""
    fake = Fake(double)
    results = run(fake, 10**6)

    assert next(results) == (0, 0)
    assert len(fake.attempts) == 4
    results.close()  # type: ignore[attr-defined]
    assert fake.ends
    assert set(fake.cancelled) >= set(fake.ends)


def test_what_is_held_does_not_grow_with_the_number_of_tasks() -> None:
    """Ten times as many tasks, in the same few kilobytes."""

    def work(count: int) -> None:
        fake = Fake(double, places=8)
        for _ in run(fake, count):
            fake.attempts.clear()  # which grow with the tasks

    assert peak_bytes(lambda: work(20_000)) < peak_bytes(lambda: work(2_000)) + 10_000


@pytest.mark.parametrize(
    ("error", "times", "seconds"),
    [(TimeoutError("the network"), 2, 3 + 0.5 + 1), (WorkerLostError("its node died"), 8, None)],
)
def test_what_may_pass_is_tried_again(error: Exception, times: int, seconds: float | None) -> None:
    """An error of the storage three times, a lost worker eight times; the pauses get longer."""
    fake = Fake(fail(error, times))

    assert list(run(fake, 1)) == [(0, 0)]
    assert fake.attempts[0] == times + 1
    assert seconds is None or fake.now == pytest.approx(seconds)


def test_lost_workers_are_counted_apart_from_errors() -> None:
    """Eight deaths leave a task the retries that it has for errors of its own."""

    def dies(number: int, attempt: int) -> int:
        return fail(WorkerLostError("its node died") if attempt < 8 else OSError("busy"), 11)(
            number, attempt
        )

    assert list(run(Fake(dies), 1)) == [(0, 0)]


def test_an_error_that_stays_is_named_when_the_others_are_done() -> None:
    """After so many attempts as were asked for; its cause is the task's own."""
    error = OSError(28, "No space left on device")
    fake = Fake(fail(error, only=3))
    done = []

    with pytest.raises(
        PrepareError,
        match=r"1 of 9 shards could not be done, the first is number 3: .* No space left .* run the same command again",
    ) as caught:
        done.extend(run(fake, 9, Policy(max_retries=2)))

    assert (sorted(number for number, _ in done), fake.attempts[3]) == ([0, 1, 2, 4, 5, 6, 7, 8], 3)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("error", "count", "attempts", "match"),
    [
        # A million tasks are not tried when ten have failed.
        (PrepareError("no bucket"), 10**6, 10, r"10 of 1,000,000 shards .*: no bucket"),
        # A shard that takes too much memory would kill for ever.
        (WorkerLostError("out of memory"), 1, 9, "number 0: out of memory; what is done"),
        # Where the error of a task says to run the command again, the sentence around it does not.
        (
            PrepareError("make room and run the same command again"),
            1,
            1,
            r"run the same command again; what is done stays done$",
        ),
    ],
    ids=["all", "deadly", "advice"],
)
def test_what_cannot_be_done_ends_the_job_soon(
    error: Exception, count: int, attempts: int, match: str
) -> None:
    """With one sentence."""
    fake = Fake(fail(error))

    with pytest.raises(PrepareError, match=match):
        list(run(fake, count))
    assert attempts <= sum(fake.attempts.values()) < 2 * attempts


def test_a_defect_is_raised_at_once_and_as_it_is() -> None:
    """It has a traceback, and no sentence."""
    with pytest.raises(KeyError):
        list(run(Fake(fail(KeyError())), 3))


def test_a_task_that_hangs_is_overtaken() -> None:
    """A second copy answers, and the first is ended."""
    fake = Fake(double, slow={(2, 0): float("inf")})

    assert sorted(run(fake, 8)) == [(number, 2 * number) for number in range(8)]
    assert fake.attempts[2] == 2
    assert (2, 0) in fake.cancelled


def test_the_slower_of_two_copies_counts_for_nothing() -> None:
    """Its answer comes late, its error too, and no third copy is begun."""
    fake = Fake(
        fail(KeyError("late"), 1, only=2), places=8, slow={(2, 0): 30, (5, 0): 90, (5, 1): 90}
    )

    assert sorted(run(fake, 8)) == [(number, number) for number in range(8)]
    assert fake.attempts[5] == 2  # however long both take


def test_a_copy_that_dies_leaves_the_other_at_work() -> None:
    """Its worker is lost while a second copy, which was begun since the task is slow, goes on: no retry is used up."""
    dies_once = fail(WorkerLostError("its node died"), 1, only=2)
    fake = Fake(dies_once, places=8, slow={(2, 0): 30.0, (2, 1): 60.0})

    done = sorted(run(fake, 8, Policy(max_losses=0)))
    assert done == [(number, number) for number in range(8)]


def test_a_cluster_that_grows_is_used() -> None:
    """Its size is looked at every few seconds."""
    fake = Fake(double, places=1)
    results = run(fake, 200)
    list(islice(results, 10))

    fake.places = 20
    list(results)

    assert fake.most == 40


def test_a_cluster_that_loses_all_machines_is_waited_for_with_a_word() -> None:
    """Once each time; when there are machines again, the work goes on."""

    def lose_and_find(number: int, _: int) -> int:
        if number in (0, 8, 9):
            fake.places = 0 if number == 8 else 2
        return number

    fake = Fake(lose_and_find, places=0, slow={(0, 0): 60.0, (9, 0): 60.0})

    with pytest.warns(UserWarning, match=r"room for a shard for 1\d seconds: start mach") as said:
        done = list(run(fake, 50))

    assert (len(done), len(said)) == (50, 2)


def test_a_cluster_without_machines_is_given_up() -> None:
    """After a quarter of an hour, long before the tasks that it was handed end."""
    fake = Fake(double, slow={(number, 0): 5000.0 for number in range(5, 100)})
    done = []
    results = run(fake, 100)
    done.append(next(results))
    fake.places = 0

    with (
        pytest.warns(UserWarning, match="15 minutes at most"),
        pytest.raises(PrepareError, match=r"for 15 minutes; what is done stays done: start mach"),
    ):
        done.extend(results)

    assert [number for number, _ in done] == [0, 1, 2, 3, 4]
    assert 900 <= fake.now < 920
