"""Jobs: numbered tasks over a fixed plan, which this machine, the tasks of an array job, or a cluster carry out.

Each task makes one part under a temporary name. A done mark (a file, such as the entry of a shard) shows that the part is
complete, so a repeated run makes only the missing parts. Merging the parts is a separate step. Packing, inspecting and
finding seek points work this way, so that the result does not depend on the executor. Indexing uses the jobs and executors only:
the index of a shard is its own done mark.
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

# With more tasks, a cluster loses more time by scheduling than it gains by balance; see `even_boundaries`.
_MOST_TASKS = 4096


@dataclass(frozen=True)
class Job(Generic[Result]):
    """A set of numbered tasks that can be carried out in any order, on any machine, and more than once.

    Attributes:
        do: Carries out the task with a number, and returns a result of a few kilobytes. It can be pickled, its result
            depends only on the number, and it leaves either a complete part or none.
        numbers: Numbers of the tasks to carry out.
        task_bytes: Memory that a task takes, in bytes.
        what: Name of what a task makes, for messages, in singular: "shard".

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
    """The interface of executors, which carry out jobs.

    Example:
        >>> from readers.prepare import Executor, Job, LocalExecutor
        >>> somebody: Executor = LocalExecutor(1)
        >>> sorted(somebody.run(Job(abs, [0, 1])))
        [(0, 0), (1, 1)]
    """

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out every task, and yield the number and result of each when it is done, in any order.

        For a job without tasks, only check that the executor can work. If the consumer stops early, running tasks are
        ended.

        Raises:
            PrepareError: A task failed; finished tasks stay done.
        """


class LocalExecutor:
    """An executor on this machine, with several processes, or within this process if there is only one task.

    Args:
        num_workers: Number of processes; all cores if None.
        spread: Whether to start processes, which takes two seconds. If False, tasks run in this process, one by one, and
            may use threads of their own.

    Example:
        >>> from readers.prepare import Job, LocalExecutor
        >>> list(LocalExecutor(4, spread=False).run(Job(abs, [-3])))
        [(-3, 3)]
    """

    def __init__(self, num_workers: int | None = None, *, spread: bool = True) -> None:
        self._num_workers, self._spread = checked_workers(num_workers), spread

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out the tasks on this machine; yield the number and result of each task when it is done."""
        numbers = list(job.numbers)
        if not self._spread or len(numbers) < 2 or self._num_workers < 2:
            for number in numbers:
                yield number, job.do(number)
            return
        with Processes(min(self._num_workers, len(numbers)), job.do) as processes:
            yield from processes.as_completed(job.do, numbers)


class ArrayTask:
    """An executor for task I of N of an array job (as of Slurm): it carries out only the tasks whose number modulo N is I.

    Args:
        number: I, 0 <= number < count.
        count: N, the number of tasks in the array job.
        executor: Carries out the tasks that are left; this machine if None.

    Raises:
        PrepareError: `number` is out of range.

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
        """Return those of some task numbers that this executor carries out."""
        return [number for number in numbers if number % self.count == self.number]

    def run(self, job: Job[Result]) -> Iterator[tuple[int, Result]]:
        """Carry out only the tasks that belong to this array task; yield the number and result of each."""
        own = self.own(job.numbers)
        return self._executor.run(Job(job.do, own, job.task_bytes, job.what))


class Parts(ABC, Generic[Result]):
    """Base class of the parts that a job makes, such as shards: each covers a range of samples and has a done mark.

    Args:
        boundaries: int64 [parts + 1], ascending; part i covers boundaries[i] <= sample < boundaries[i + 1].
    """

    what: ClassVar[str]
    """Name of a part in messages, in singular."""
    task_bytes: ClassVar[int] = 1 << 28
    """Memory of a task: Python with its libraries and the samples under way; measured for inspection and seek points."""

    def __init__(self, boundaries: NDArray[np.int64]) -> None:
        self.boundaries = boundaries

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self.boundaries) - 1

    def stretch(self, number: int) -> range:
        """Return the range of samples that a part covers."""
        return range(int(self.boundaries[number]), int(self.boundaries[number + 1]))

    def num_samples(self, numbers: Sequence[int]) -> int:
        """Return the number of samples in the parts with these numbers."""
        return sum(len(self.stretch(number)) for number in numbers)

    @abstractmethod
    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return those of some part numbers whose part has no done mark."""

    def store(self, number: int, result: Result) -> None:  # type: ignore[misc]  # the result is only read
        """Store the result of a task, in the process that runs the job; by default do nothing, as tasks store their parts."""

    def make(
        self,
        do: Callable[[int], Result],
        executor: Executor,
        missing: Sequence[int],
        num_samples: int,
        on_progress: Callable[[int, int], None],
    ) -> Iterator[tuple[int, Result]]:
        """Make the missing parts, and yield the number and result of each when it is done.

        Args:
            do: Makes the part with a number; see `Job`.
            executor: Carries out the job.
            missing: Numbers of the parts to make.
            num_samples: Number of samples in all parts, including those that are done already.
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
    """Return boundaries that divide samples into parts of equal size; the last part may be smaller.

    They depend only on the arguments, so that all machines agree on them.

    Args:
        length: Number of samples.
        least: Smallest size of a part: smaller parts cost more than they gain by balance.
        most: Largest size of a part.

    Returns:
        int64 [parts + 1], see `Parts`.
    """
    size = max(least, min(most, -(-length // _MOST_TASKS)))
    return np.array([*range(0, length, size), length], np.int64)


def missing_parts_error(
    missing: Sequence[int], num_missing: int, num_parts: int, what: str, location: str
) -> PrepareError:
    """Return the error for a merge of which parts are missing.

    Args:
        missing: Numbers of the first missing parts, at least six if so many are missing.
        num_missing: Number of missing parts.
        num_parts: Number of all parts.
        what: Name of a part, in singular: "shard".
        location: Path or URL of the folder of the parts.
    """
    return PrepareError(
        f"{num_missing:,} of {counted(num_parts, what)} are missing in {shown_path(location)} (number {few_of(missing)}): run "
        "the same command without --merge, or the tasks that make them, then merge"
    )
