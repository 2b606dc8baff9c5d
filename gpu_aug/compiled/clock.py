"""A clock that stops while functions are compiled, because compilation happens once and would distort rates."""

import threading
import time


class Clock:
    """A clock that counts only time in which nothing is compiled; any thread may use it.

    Reading it takes no lock, because every call of a stage reads it twice, and a thread that waits for a lock also
    gives up the GIL, for which 16 threads then queue. Reading relies only on atomic loads and stores of an attribute.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held to change what stands below
        self._depth = 0
        # When the clock was stopped, None while it runs; and the seconds that were left out before. Always a new tuple.
        self._state: tuple[float | None, float] = (None, 0.0)

    def __call__(self) -> float:
        """Return the seconds since a fixed moment, without time spent compiling or waiting for a process that compiles."""
        while True:
            state = self._state
            stopped, left_out = state
            now = time.perf_counter() if stopped is None else stopped
            # Otherwise another thread has compiled since `state` was read, and `now` may include that time.
            if self._state is state:
                return now - left_out

    @property
    def left_out(self) -> float:
        """The seconds that were left out so far."""
        with self._lock:
            stopped, left_out = self._state
            return left_out + (0.0 if stopped is None else time.perf_counter() - stopped)

    def stop(self) -> None:
        """Stop the clock until `go_on` has been called as often as this method."""
        with self._lock:
            if not self._depth:
                self._state = time.perf_counter(), self._state[1]
            self._depth += 1

    def go_on(self) -> None:
        """Undo one call of `stop`."""
        with self._lock:
            self._depth -= 1
            stopped, left_out = self._state
            if not self._depth and stopped is not None:
                self._state = None, left_out + time.perf_counter() - stopped

    def leave_out(self, seconds: float) -> None:
        """Leave out past time in which this process waited for another one that compiled."""
        with self._lock:
            stopped, left_out = self._state
            self._state = stopped, left_out + seconds


clock = Clock()
"""The clock of all rates and shares of time."""
