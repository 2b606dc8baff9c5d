"""A least-recently-used cache bounded in bytes, for decoded pages and columns of row groups."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int:
        """Bytes that it holds."""


Value = TypeVar("Value", bound=Sized)


class Recent(Generic[Value]):
    """Values by key; the least recently used are dropped when the total exceeds the bound.

    Threads that want the same value at once wait for the one that makes it. A value larger than the
    bound is handed out and not kept.

    Args:
        limit_bytes: Maximum size of the cache.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._makers: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self.held_bytes = 0

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made now if it is not there. What `make` raises goes through."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                return found
            maker = self._makers.setdefault(key, threading.Lock())
        with maker:
            with self._lock:
                found = self._values.get(key)
            if found is not None:
                return found
            try:
                made = make()
                self._keep(key, made)
            finally:
                with self._lock:
                    self._makers.pop(key, None)
        return made

    def peek(self, key: Hashable) -> Value | None:
        """Return the value of a key, None if it is not there."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def drop(self, key: Hashable) -> None:
        """Forget a value, if it is there."""
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self.held_bytes -= old.nbytes

    def _keep(self, key: Hashable, value: Value) -> None:
        size_bytes = value.nbytes
        if size_bytes > self._limit_bytes:
            return
        with self._lock:
            if key in self._values:
                return
            self._values[key] = value
            self.held_bytes += size_bytes
            while self.held_bytes > self._limit_bytes:
                _, old = self._values.popitem(last=False)
                self.held_bytes -= old.nbytes
