"""Call a function in threads, some calls ahead of the consumer."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

NUM_AHEAD = 2
"""How many batches are ready or in progress: as many as per worker of torch's DataLoader."""


def results_ahead(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    num_threads: int,
    num_ahead: int,
    begin: Callable[[], None] | None = None,
) -> Generator[Result]:
    """Call a function for each item in threads, and yield the results in the order of the items.

    Closing the iterator waits for the calls in progress.

    Args:
        work: The function, which takes an item.
        items: The items, as a rule endless: results of the last `num_ahead` items are not yielded.
        num_threads: Count of threads, at least 1.
        num_ahead: Count of calls that are finished or in progress when a result is yielded.
        begin: Called in each thread before its first item.
    """
    pool = ThreadPoolExecutor(num_threads, initializer=begin)
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > num_ahead:
                yield under_way.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def threaded_batches(
    work: Callable[[int], Result],
    batch_size: int,
    num_threads: int,
    begin: Callable[[], None] | None = None,
) -> Iterator[list[Result]]:
    """Call a function for consecutive positions, and yield its results in batches, endlessly.

    Args:
        work: The function, which takes a position, counted from 0.
        batch_size: Count of results per batch.
        num_threads: Count of threads, at least 1.
        begin: Called in each thread before its first position.
    """
    results = results_ahead(work, count(), num_threads, NUM_AHEAD * batch_size, begin)
    while True:
        yield list(islice(results, batch_size))
