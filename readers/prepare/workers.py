"""Pools of threads or processes that carry out tasks."""

import multiprocessing
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import connection
from typing import Any, Self, TypeVar

from readers.cores import usable_cores
from readers.prepare.errors import PrepareError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks per thread that begin before their results are needed: enough that uneven tasks leave no thread idle.
_AHEAD = 4


def checked_workers(num_workers: int | None) -> int:
    """Return the number of threads or processes to use: `num_workers`, or the number of usable cores if that is None.

    Raises:
        PrepareError: `num_workers` is less than 1.
    """
    if num_workers is not None and num_workers < 1:
        raise PrepareError(
            f"workers must be 1 or more, got {num_workers}: leave it out for all cores"
        )
    return num_workers or usable_cores()


class Threads:
    """A pool of threads, for work that mostly runs without Python's global lock.

    Args:
        num_threads: Number of threads, at least 1.
    """

    def __init__(self, num_threads: int) -> None:
        self._pool: Executor = ThreadPoolExecutor(num_threads, thread_name_prefix="gpu-aug")
        self._num_ahead = _AHEAD * num_threads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order; only a few tasks run ahead of the consumer.

        Args:
            work: Carries out one task.
            tasks: The tasks; they are iterated over in the caller's thread.
        """
        begun: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                begun.append(self._submit(work, task))
                if len(begun) > self._num_ahead:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()

    def _submit(self, work: Callable[[Task], Result], task: Task) -> Future[Result]:
        return self._pool.submit(work, task)


class Processes(Threads):
    """A pool of processes, for work that holds Python's global lock. They end with this process, even if it is killed.

    Args:
        num_processes: Number of processes, at least 1.
        work: The function that `map` will be called with. The function, the tasks and the results are pickled.
    """

    def __init__(self, num_processes: int, work: Callable[[Any], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(num_processes, context, _begin, (work,))
        self._num_ahead = _AHEAD * num_processes

    def map(self, work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order; see `Threads.map`.

        Raises:
            PrepareError: A process was killed.
        """
        with _explained_kills():
            yield from super().map(work, tasks)

    def as_completed(
        self, work: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """Yield each task with its result as soon as it is done, in any order, so that a slow task holds up no other.

        Args:
            work: The function that the pool was made with.
            tasks: The tasks; only a few run ahead of the consumer.

        Raises:
            PrepareError: A process was killed.
        """
        remaining, running = iter(tasks), dict[Future[Result], Task]()
        try:
            with _explained_kills():
                while True:
                    for task in islice(remaining, self._num_ahead - len(running)):
                        running[self._submit(work, task)] = task
                    if not running:
                        return
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    # Those that failed come last, so that the others are not lost.
                    for future in sorted(done, key=lambda one: one.exception() is not None):
                        yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()

    def _submit(self, work: Callable[[Task], Result], task: Task) -> Future[Result]:
        del work  # the processes got it when they began
        return self._pool.submit(_do, task)


@contextmanager
def _explained_kills() -> Iterator[None]:
    """Raise a PrepareError if a process of the pool was killed."""
    try:
        yield
    except BrokenProcessPool:
        raise PrepareError(
            "a worker process was killed, perhaps because memory ran out: run the same command again to continue, with "
            "fewer --workers if it happens again"
        ) from None


_work: Callable[[Any], Any]


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    # The parent process has opened the same data and shown the same warnings.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"readers\.prepare\.source$")
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _do(task: Any) -> Any:
    return _work(task)
