"""Who carries out the tasks of a preparation: this machine, one task of an array job, or a cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from readers.prepare.errors import PrepareError
from readers.prepare.workers import Processes, checked_workers

Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True)
class Job(Generic[Result]):
    """Work in numbered tasks, which may be done in any order, on any machine, and more than once.

    Attributes:
        do: Carries out one task and returns what is to be known of it, a few kilobytes. It can be pickled, depends on
            the number alone, and leaves its work whole or not at all.
        numbers: The tasks that are to be done.
        task_bytes: Memory that a task takes.
        what: What a task makes, for people, in singular: "shard".

    Example:
        >>> from readers.prepare import Job, LocalExecutor
        >>> list(LocalExecutor(1).run(Job(hex, [1, 10])))
        [(1, '0x1'), (10, '0xa')]
    """

    do: Callable[[int], Result]
    numbers: Sequence[int]
    task_bytes: int = 0
    what: str = "task"


class Executor(Protocol):
    """Carries out jobs.

    Example:
        >>> from readers.prepare import Executor, Job, LocalExecutor
        >>> somebody: Executor = LocalExecutor(1)
        >>> sorted(somebody.run(Job(abs, [0, 1])))
        [(0, 0), (1, 1)]
    """

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out every task, and yield its number and result as it is done, in no order.

        Of a job without tasks it only sees that it could. A consumer that stops early ends the tasks under way.

        Raises:
            PrepareError: A task could not be done; those that were done stay done.
        """


class LocalExecutor:
    """This machine: processes, or one thread after the other where there is little to do.

    Args:
        num_workers: Processes; all cores when None.
        spread: Whether processes are started, which takes two seconds; else tasks run here, one by one, and may use
            threads of their own.

    Example:
        >>> from readers.prepare import Job, LocalExecutor
        >>> list(LocalExecutor(4, spread=False).run(Job(abs, [-3])))
        [(-3, 3)]
    """

    def __init__(self, num_workers: int | None = None, *, spread: bool = True) -> None:
        self._num_workers, self._spread = checked_workers(num_workers), spread

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """See `Executor.run`."""
        numbers = list(job.numbers)
        if not self._spread or len(numbers) < 2 or self._num_workers < 2:
            for number in numbers:
                yield number, job.do(number)
            return
        with Processes(min(self._num_workers, len(numbers)), job.do) as processes:
            yield from zip(numbers, processes.map(job.do, numbers), strict=True)


class ArrayTask:
    """One of several processes that nobody connects, such as those of an array job: every N-th task, from the I-th on.

    Args:
        number: Which one, 0 <= number < count.
        count: How many there are.
        executor: Carries out this one's tasks; this machine when None.

    Raises:
        PrepareError: The number is not one of them.

    Example:
        >>> from readers.prepare import ArrayTask, Job, LocalExecutor
        >>> [number for number, _ in ArrayTask(1, 3, LocalExecutor(1)).run(Job(abs, range(9)))]
        [1, 4, 7]
    """

    def __init__(self, number: int, count: int, executor: Executor | None = None) -> None:
        if not 0 <= number < count:
            raise PrepareError(
                f"a task is I/N with 0 <= I < N, got {number}/{count}: the first of four is 0/4"
            )
        self.number, self.count = number, count
        self._executor = executor or LocalExecutor()

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """See `Executor.run`; of the tasks, only this one's are done."""
        own = [number for number in job.numbers if number % self.count == self.number]
        return self._executor.run(Job(job.do, own, job.task_bytes, job.what))
