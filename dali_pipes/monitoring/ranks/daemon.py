"""A daemon thread that does something again and again until it is told to end."""

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable

from dali_pipes.monitoring.ranks.visible_warning import speak

_END_SECONDS = 1.0

_all: "weakref.WeakSet[Daemon]" = weakref.WeakSet()


class Daemon:
    """Calls a function every so many seconds, in a thread of its own that holds up nothing.

    Args:
        name: Of the thread.
        seconds: From one call to the next.
        work: Is called with False, and once more, with True, when the thread ends.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[bool], None]) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=_run, args=(self._ended, seconds, work), name=name, daemon=True
        )
        _all.add(self)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def join(self, seconds: float = _END_SECONDS) -> None:
        """Wait until it has ended, but not for long: what it asks may hang."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)


def _run(ended: threading.Event, seconds: float, work: Callable[[bool], None]) -> None:
    try:
        while not ended.wait(seconds):
            work(False)
        work(True)
    except Exception:  # noqa: BLE001 - whatever it is, the loop is not to blame
        speak("the watch of a loop has ended by an error; the loop goes on", error=True)


def _end_all() -> None:
    """Before Python goes: no thread should be in the middle of a call of C++ then."""
    until = time.monotonic() + _END_SECONDS
    daemons = list(_all)
    for one in daemons:
        one.end()
    for one in daemons:
        one.join(max(0.0, until - time.monotonic()))


atexit.register(_end_all)
os.register_at_fork(after_in_child=_all.clear)
