"""A clock that stands still while functions are compiled, which is done once and is no part of any rate."""

import threading
import time


class Clock:
    """Seconds that go by while nothing is compiled; safe from any thread.

    Reading it takes no lock, for every call of a stage reads it twice: a thread that waits for a lock gives up the
    interpreter, too, and 16 threads queue for that. Only storing and loading an attribute must be atomic for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held to change what stands below
        self._depth = 0
        # When the clock was stopped, None while it runs; and the seconds that were left out before. Always a new tuple.
        self._state: tuple[float | None, float] = (None, 0.0)

    def __call__(self) -> float:
        """Seconds since some moment, without those spent compiling or waiting for who compiles."""
        while True:
            state = self._state
            stopped, left_out = state
            now = time.perf_counter() if stopped is None else stopped
            # Else another thread has compiled between the two looks, and `now` may hold the time that this took.
            if self._state is state:
                return now - left_out

    @property
    def left_out(self) -> float:
        """The seconds that were left out so far."""
        with self._lock:
            stopped, left_out = self._state
            return left_out + (0.0 if stopped is None else time.perf_counter() - stopped)

    def stop(self) -> None:
        """Stand still until `go_on` was called as often as this."""
        with self._lock:
            if not self._depth:
                self._state = time.perf_counter(), self._state[1]
            self._depth += 1

    def go_on(self) -> None:
        """See `stop`."""
        with self._lock:
            self._depth -= 1
            stopped, left_out = self._state
            if not self._depth and stopped is not None:
                self._state = None, left_out + time.perf_counter() - stopped

    def leave_out(self, seconds: float) -> None:
        """Leave out time that has gone by, in which another process compiled and this one waited for it."""
        with self._lock:
            stopped, left_out = self._state
            self._state = stopped, left_out + seconds


clock = Clock()
"""What rates and shares are measured with."""
