"""Call a function in threads, a few batches ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import TypeVar

Item = TypeVar("Item")

NUM_AHEAD = 2
"""How many batches are ready or in progress: as many as per worker of torch's DataLoader."""


def threaded_batches(
    work: Callable[[int], Item],
    batch_size: int,
    num_threads: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[list[Item]]:
    """Call a function for consecutive positions, and yield its results in batches, endlessly.

    Args:
        work: The function, which takes a position, counted from 0.
        batch_size: Count of results per batch.
        num_threads: Count of threads, at least 1.
        begin: Called in each thread before its first position.
    """
    pool = ThreadPoolExecutor(num_threads, initializer=begin)
    under_way: deque[list[Future[Item]]] = deque()
    try:
        for start in count(0, batch_size):
            positions = range(start, start + batch_size)
            under_way.append([pool.submit(work, position) for position in positions])
            if len(under_way) > NUM_AHEAD:
                yield [future.result() for future in under_way.popleft()]
    finally:
        pool.shutdown(cancel_futures=True)
