"""Count the bytes and requests of remote reads and the hits of the block cache, for each loader separately."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Traffic:
    """Counts of remote reads; safe to use from any thread.

    Attributes:
        requests: Number of requests for parts of remote files.
        num_bytes: Number of bytes that these requests returned.
        cache_hits: Number of requested blocks that were in the block cache.
        cache_misses: Number of requested blocks that were not in the block cache.
    """

    requests: int = 0
    num_bytes: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, tuple[int, ...]]:
        """Pickle the counts without the lock."""
        return Traffic, (self.requests, self.num_bytes, self.cache_hits, self.cache_misses)

    def add(self, other: "Traffic", sign: int = 1) -> None:
        """Add the counts of another object; with sign -1, subtract them."""
        with self._lock:
            self.requests += sign * other.requests
            self.num_bytes += sign * other.num_bytes
            self.cache_hits += sign * other.cache_hits
            self.cache_misses += sign * other.cache_misses


_counted_by: ContextVar[Traffic | None] = ContextVar("gpu_aug_traffic", default=None)


@contextmanager
def counted(traffic: Traffic | None) -> Iterator[None]:
    """Add the remote reads of the with block to `traffic`, including those in threads of `CountingThreads`; None counts nothing."""
    token = _counted_by.set(traffic)
    try:
        yield
    finally:
        _counted_by.reset(token)


def counting() -> Traffic | None:
    """Return the counts to which remote reads are added here; None if they are not counted."""
    return _counted_by.get()


def count(
    *, requests: int = 0, num_bytes: int = 0, cache_hits: int = 0, cache_misses: int = 0
) -> None:
    """Add to the counts of the innermost `counted` block; do nothing outside of such a block."""
    if (traffic := _counted_by.get()) is not None:
        traffic.add(Traffic(requests, num_bytes, cache_hits, cache_misses))


class CountingThreads(ThreadPoolExecutor):
    """A thread pool whose remote reads count for the code that submitted the work; see `counted`."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if _counted_by.get() is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(copy_context().run, fn, *args, **kwargs)
