"""Do work in background threads that never delay the loop, limit the time of calls, and warn visibly."""

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOGGER = logging.getLogger("gpu_aug.dali_pipes.monitoring.ranks")

_END_SECONDS = 1.0
"""Longest wait for the end of a thread: a file system or store that hangs must not delay the loop."""

_running: "weakref.WeakSet[RepeatingThread]" = weakref.WeakSet()


class RepeatingThread:
    """A daemon thread that calls a function at an interval.

    Args:
        name: Name of the thread.
        seconds: Seconds between two calls.
        work: The function; it is called with False, and a last time with True when the thread ends.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[bool], None]) -> None:
        # The thread holds no reference to this object, so that dropping the object removes it from the set.
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=_repeat, args=(self._ended, seconds, work), name=name, daemon=True
        )
        _running.add(self)
        self._thread.start()

    def end(self) -> None:
        """Signal the thread to end."""
        self._ended.set()

    def join(self, seconds: float = _END_SECONDS) -> None:
        """Wait until the thread has ended, up to a time limit, because its function may hang."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)


def _repeat(ended: threading.Event, seconds: float, work: Callable[[bool], None]) -> None:
    try:
        while not ended.wait(seconds):
            work(False)
        work(True)
    except Exception:  # noqa: BLE001 - an error of the watch must not end the training
        warn_visibly("the watch of a loop has ended by an error; the loop goes on", error=True)


def _end_all() -> None:
    """End all threads at exit: Python must not shut down while one of them is in a call of C++ code."""
    until = time.monotonic() + _END_SECONDS
    threads = list(_running)
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_end_all)
os.register_at_fork(after_in_child=_running.clear)  # a fork copies no threads


def call_with_timeout(seconds: float, call: Callable[[], T], default: T) -> T:
    """Return the result of a function, or `default` if it takes too long or raises, which is logged at level DEBUG.

    The function runs in a new thread, which is abandoned if it hangs.
    """
    results: list[T] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception:  # without a result the default is returned
            LOGGER.debug("a call with a time limit failed", exc_info=True)

    thread = threading.Thread(target=run, name="gpu-aug-watch-question", daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else default


def warn_visibly(text: str, *, error: bool = False) -> None:
    """Log a warning; also write it to stderr if logging is not set up.

    Python writes warnings of loggers without handlers to stderr, but not if the library has a NullHandler, as ours does.

    Args:
        text: The warning; it may have several lines.
        error: Whether to log the traceback of the current exception.
    """
    LOGGER.warning("%s", text, exc_info=error)
    handlers: list[logging.Handler] = []
    logger: logging.Logger | None = LOGGER
    while logger is not None:
        handlers += logger.handlers
        logger = logger.parent if logger.propagate else None
    is_muted = handlers and all(isinstance(one, logging.NullHandler) for one in handlers)
    if is_muted and LOGGER.isEnabledFor(logging.WARNING) and sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
