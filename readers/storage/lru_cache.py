"""A least-recently-used cache bounded in bytes, for decoded pages and columns of row groups."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """An object with a known size in memory, such as a NumPy array."""

    @property
    def nbytes(self) -> int:
        """Size of the object in bytes."""


Value = TypeVar("Value", bound=Sized)


class Recent(Generic[Value]):
    """A thread-safe cache of values by key; when they exceed a limit, the least recently used ones are dropped.

    If several threads need a missing value, one of them makes it, and the others wait. A value that alone exceeds the limit is
    returned without being stored.

    Args:
        limit_bytes: Largest size of all values together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._makers: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self.held_bytes = 0

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the stored value of a key; if there is none, call `make`, store its result and return it."""
        if (found := self.peek(key)) is not None:
            return found
        with self._lock:
            maker = self._makers.setdefault(key, threading.Lock())
        with maker:
            if (found := self.peek(key)) is not None:  # another thread has made it meanwhile
                return found
            try:
                made = make()
                self._store(key, made)
            finally:
                with self._lock:
                    self._makers.pop(key, None)
        return made

    def peek(self, key: Hashable) -> Value | None:
        """Return the stored value of a key; None if there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def drop(self, key: Hashable) -> None:
        """Remove the value of a key if it is stored."""
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self.held_bytes -= old.nbytes

    def _store(self, key: Hashable, value: Value) -> None:
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
