"""Values that each process must make for itself, such as locks, threads and caches."""

import os
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class PerProcess(Generic[Value]):
    """A lazily made value that is not inherited by forked processes.

    Each process makes its own value, because threads do not survive a fork, and an inherited lock may be held forever.

    Args:
        make: Returns a new value. It should not refer to the object that owns this one: such a cycle is only freed by the
            garbage collector.
    """

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self._process = 0  # no process has this number, so that the first call makes the value

    def get(self) -> Value:
        """Return the value of this process, which the first call makes.

        If several threads make the first call at the same time, each may get a value of its own.
        """
        if self._process != os.getpid():
            self._value, self._process = self._make(), os.getpid()
        return self._value
