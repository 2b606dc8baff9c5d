"""A clock that stands still while functions are compiled, which is done once and is no part of any rate."""

import threading
import time


class Clock:
    """Seconds that go by while nothing is compiled; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._stopped = 0.0
        self._left_out = 0.0

    def __call__(self) -> float:
        """Seconds since some moment, without those spent compiling or waiting for who compiles."""
        with self._lock:
            now = self._stopped if self._depth else time.perf_counter()
            return now - self._left_out

    @property
    def left_out(self) -> float:
        """The seconds that were left out so far."""
        with self._lock:
            standing = time.perf_counter() - self._stopped if self._depth else 0.0
            return self._left_out + standing

    def stop(self) -> None:
        """Stand still until `go_on` was called as often as this."""
        with self._lock:
            if not self._depth:
                self._stopped = time.perf_counter()
            self._depth += 1

    def go_on(self) -> None:
        """See `stop`."""
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._left_out += time.perf_counter() - self._stopped

    def leave_out(self, seconds: float) -> None:
        """Leave out time that has gone by, in which another process compiled and this one waited for it."""
        with self._lock:
            self._left_out += seconds


clock = Clock()
"""What rates and shares are measured with."""
