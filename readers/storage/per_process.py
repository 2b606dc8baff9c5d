"""Values that each process makes for itself, such as locks, threads and caches."""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class PerProcess(Generic[Value]):
    """A value of one process. A forked process makes its own: threads do not survive a fork, and a lock may be held.

    Args:
        make: Returns the value. If it refers to the object that holds this one, only garbage collection frees the two.
    """

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._process = 0  # no process has this number, so that the first call makes the value

    def get(self) -> Value:
        """Return the value of this process. The first call makes it; threads that call first at once may get one each."""
        if self._process != os.getpid():
            self._value, self._process = self._make(), os.getpid()
        return self._value
