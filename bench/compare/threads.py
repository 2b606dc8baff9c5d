"""Work done by threads a few batches ahead of the consumer."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Generic, TypeVar

Item = TypeVar("Item")

NUM_AHEAD = 2
"""Batches that lie ready or are under way."""


class ThreadedBatches(Generic[Item]):
    """Calls a function for position after position, and hands its results over in batches.

    Args:
        work: Gets a position, counted from 0 without an end.
        batch_size: Results in a batch.
        num_threads: At least 1.
        begin: Called in each thread before its first position.
    """

    def __init__(
        self,
        work: Callable[[int], Item],
        batch_size: int,
        num_threads: int,
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._work, self._batch_size = work, batch_size
        self._pool = ThreadPoolExecutor(num_threads, initializer=begin)
        self._under_way: deque[list[Future[Item]]] = deque()
        self._starts = count(0, batch_size)
        for _ in range(NUM_AHEAD):
            self._submit()

    def next(self) -> list[Item]:
        """Begin another batch, and wait for the oldest one."""
        self._submit()
        return [future.result() for future in self._under_way.popleft()]

    def close(self) -> None:
        """Discard pending batches."""
        self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        start = next(self._starts)
        positions = range(start, start + self._batch_size)
        self._under_way.append([self._pool.submit(self._work, position) for position in positions])
