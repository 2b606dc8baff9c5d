"""Work done by several threads at a time, handed over in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bench.errors import BenchError
from bench.machine import num_cores

Task = TypeVar("Task")
Result = TypeVar("Result")

_AHEAD = 4  # tasks per thread that are begun before the first of them is needed


def checked_workers(num_workers: int | None) -> int:
    """The number of threads: what was asked for, or the machine's cores.

    Raises:
        BenchError: It is less than 1.
    """
    if num_workers is not None and num_workers < 1:
        raise BenchError(
            f"workers must be 1 or more, got {num_workers}: leave it out for all cores"
        )
    return num_workers or num_cores()


class Crew:
    """Threads for work that mostly runs without Python's lock.

    Args:
        num_threads: At least 1.
    """

    def __init__(self, num_threads: int) -> None:
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gpu-aug")
        self._num_ahead = _AHEAD * num_threads

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Do the work for every task, few tasks ahead of the result that is asked for.

        Tasks are taken from the iterable in the caller's thread.
        """
        begun: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                begun.append(self._pool.submit(work, task))
                if len(begun) > self._num_ahead:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()
