"""Limits while something is timed: one thread, or at most some seconds."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch and OpenCV to one thread for a while."""
    import torch

    cv2 = sys.modules.get("cv2")
    threads = torch.get_num_threads(), cv2.getNumThreads() if cv2 else 0
    torch.set_num_threads(1)
    if cv2:
        cv2.setNumThreads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads[0])
        if cv2:
            cv2.setNumThreads(threads[1])


@contextmanager
def at_most(seconds: float, what: str) -> Iterator[None]:
    """Break off what takes longer, where the system has alarms and this is the main thread.

    Raises:
        TimeoutError: It took longer.
    """
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} takes more than {seconds:g} s")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
