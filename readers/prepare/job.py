"""One job: numbered tasks over a fixed plan, carried out here, by one of several array tasks, or by a cluster.

Each task makes one part at a temporary name. A done mark (a file, such as the entry of a shard) says that the part is complete, so
a run that was interrupted makes only the missing parts. Merging the parts is a separate step. Packing, inspecting,
indexing and finding seek points all work this way, so every executor gives the same bytes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.plural import counted
from readers.prepare.errors import PrepareError
from readers.prepare.workers import Processes, checked_workers
from readers.storage.paths import shown_path

Result = TypeVar("Result", covariant=True)

# More tasks would cost a cluster more for scheduling than they balance; see `even_boundaries`.
_MOST_TASKS = 4096


@dataclass(frozen=True)
class Job(Generic[Result]):
    """Numbered tasks that can be carried out in any order, on any machine, and more than once.

    Attributes:
        do: Carries out one task and returns a few kilobytes about it. It can be pickled, its result depends only on the
            number, and it leaves either a complete part or none.
        numbers: The tasks to carry out.
        task_bytes: Memory that a task takes.
        what: What a task makes, for messages, in singular: "shard".

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
        """Carry out every task, and yield its number and result when it is done, in any order.

        For a job without tasks, only check that the executor can work. If the consumer stops early, running tasks are
        ended.

        Raises:
            PrepareError: A task failed; finished tasks stay done.
        """


class LocalExecutor:
    """This machine: several processes, or this process alone if there is little to do.

    Args:
        num_workers: Number of processes; all cores if None.
        spread: Whether to start processes, which takes two seconds. Otherwise tasks run in this process, one by one, and
            may use threads of their own.

    Example:
        >>> from readers.prepare import Job, LocalExecutor
        >>> list(LocalExecutor(4, spread=False).run(Job(abs, [-3])))
        [(-3, 3)]
    """

    def __init__(self, num_workers: int | None = None, *, spread: bool = True) -> None:
        self._num_workers, self._spread = checked_workers(num_workers), spread

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out the tasks on this machine; yield (number, result) in the order of the numbers."""
        numbers = list(job.numbers)
        if not self._spread or len(numbers) < 2 or self._num_workers < 2:
            for number in numbers:
                yield number, job.do(number)
            return
        with Processes(min(self._num_workers, len(numbers)), job.do) as processes:
            yield from zip(numbers, processes.map(job.do, numbers), strict=True)


class ArrayTask:
    """Task I of N of an array job, whose tasks do not communicate: it carries out every N-th task from the I-th on.

    Args:
        number: I, with 0 <= number < count.
        count: N.
        executor: Carries out the tasks of this one; this machine if None.

    Raises:
        PrepareError: The number is out of range.

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

    def own(self, numbers: Sequence[int]) -> list[int]:
        """Return the tasks that this one carries out."""
        return [number for number in numbers if number % self.count == self.number]

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out only the tasks of this array task; yield (number, result)."""
        own = self.own(job.numbers)
        return self._executor.run(Job(job.do, own, job.task_bytes, job.what))


class Parts(ABC, Generic[Result]):
    """The parts of one preparation, with their done marks; part i covers a range of samples.

    Args:
        boundaries: int64 [parts + 1], rising; part i covers boundaries[i] <= sample < boundaries[i + 1].
    """

    what: ClassVar[str]
    """Name of a part in messages, in singular."""
    task_bytes: ClassVar[int] = 1 << 28
    """Memory of a task: Python with its libraries and the samples under way; measured for inspection and seek points."""

    def __init__(self, boundaries: NDArray[np.int64]) -> None:
        self.boundaries = boundaries

    def __len__(self) -> int:
        """Number of parts."""
        return len(self.boundaries) - 1

    def stretch(self, number: int) -> range:
        """Return the range of samples that a part covers."""
        return range(int(self.boundaries[number]), int(self.boundaries[number + 1]))

    def num_samples(self, numbers: Sequence[int]) -> int:
        """Return the number of samples in some parts."""
        return sum(len(self.stretch(number)) for number in numbers)

    @abstractmethod
    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return those of some parts that have no done mark."""

    def store(self, number: int, result: Result) -> None:  # type: ignore[misc]  # the result is only read
        """Store what a task returned, in the process that runs the job. By default the task has stored its part itself."""

    def make(
        self,
        do: Callable[[int], Result],
        executor: Executor,
        missing: Sequence[int],
        num_samples: int,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, Result]]:
        """Carry out the tasks of the missing parts, and yield the number and result of each when it is done.

        Args:
            do: Carries out a task; see `Job`.
            executor: Carries out the job.
            missing: The parts without a done mark, of those that are needed.
            num_samples: Number of samples in all parts that are needed.
            on_progress: Called with the number of samples in finished parts, and `num_samples`.

        Raises:
            PrepareError: A task failed; finished tasks stay done.
        """
        done = num_samples - self.num_samples(missing)
        on_progress(done, num_samples)
        for number, result in executor.run(Job(do, missing, self.task_bytes, self.what)):
            self.store(number, result)
            done += len(self.stretch(number))
            on_progress(done, num_samples)
            yield number, result


def even_boundaries(length: int, least: int, most: int) -> NDArray[np.int64]:
    """Cut samples into parts of equal size, the last one smaller: a function of their number alone, so all machines agree.

    Args:
        length: Number of samples.
        least: Smallest size of a part: smaller ones cost more than they balance.
        most: Largest size of a part.

    Returns:
        int64 [parts + 1], see `Parts`.
    """
    size = max(least, min(most, -(-length // _MOST_TASKS)))
    return np.array([*range(0, length, size), length], np.int64)


def missing_parts_error(
    missing: Sequence[int], num_missing: int, num_parts: int, what: str, location: str
) -> PrepareError:
    """Return the error of a merge that lacks parts.

    Args:
        missing: The numbers of the first missing parts, six of them if there are so many.
        num_missing: How many are missing.
        num_parts: How many there should be.
        what: What a part is, in singular.
        location: Where the parts should be.
    """
    return PrepareError(
        f"{num_missing:,} of {counted(num_parts, what)} are missing in {shown_path(location)} (number {few_of(missing)}): run "
        "the same command without --merge, or the tasks that make them, then merge"
    )
