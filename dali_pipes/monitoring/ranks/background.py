"""Background threads that hold up nothing: a repeated call, a call with a time limit, and a warning that is seen."""

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
"""The longest wait for the end of a thread: a file system or a store that hangs must not hold up the loop."""

_running: "weakref.WeakSet[RepeatingThread]" = weakref.WeakSet()


class RepeatingThread:
    """A daemon thread that calls a function again and again.

    Args:
        name: Name of the thread.
        seconds: Seconds between two calls.
        work: Called with False, and with True for the last time when the thread ends.
    """

    def __init__(self, name: str, seconds: float, work: Callable[[bool], None]) -> None:
        # The thread holds no reference to this object, so that an object that is dropped leaves the set.
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=_repeat, args=(self._ended, seconds, work), name=name, daemon=True
        )
        _running.add(self)
        self._thread.start()

    def end(self) -> None:
        """Ask the thread to end."""
        self._ended.set()

    def join(self, seconds: float = _END_SECONDS) -> None:
        """Wait until the thread has ended, at most this long: what it calls may hang."""
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
    """End all threads at exit: Python must not shut down while one of them is in a call of C++."""
    until = time.monotonic() + _END_SECONDS
    threads = list(_running)
    for thread in threads:
        thread.end()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


atexit.register(_end_all)
os.register_at_fork(after_in_child=_running.clear)  # a fork copies no threads


def call_with_timeout(seconds: float, call: Callable[[], T], default: T) -> T:
    """Return what a function returns in time; `default` if it takes longer or raises, which is logged at level DEBUG.

    It is called in a thread of its own, which is abandoned if it hangs.
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
    """Log a warning; write it to stderr if logging is not set up.

    Python writes warnings of loggers without handlers to stderr, but not of a library with a NullHandler, as ours.

    Args:
        text: The warning; it may have several lines.
        error: Whether to log the traceback of the exception that is being handled.
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
