"""Pauses of the garbage collector, which several threads may take at the same time."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_lock = RLock()  # reentrant: a collection that begins while it is held may run code that pauses
_num_pauses = 0
_resumes = False


@contextmanager
def paused_gc() -> Iterator[None]:
    """Pause the garbage collector in a with block; it resumes when the blocks of all threads have ended.

    If the program has turned the collector off, it stays off.
    """
    pause_gc()
    try:
        yield
    finally:
        resume_gc()


def pause_gc() -> None:
    """Pause the garbage collector until `resume_gc` has been called as often as this function."""
    global _num_pauses, _resumes
    with _lock:
        if not _num_pauses:
            _resumes = gc.isenabled()
            gc.disable()
        _num_pauses += 1


def resume_gc() -> None:
    """End one pause of the garbage collector."""
    global _num_pauses
    with _lock:
        _num_pauses -= 1
        if not _num_pauses and _resumes:
            gc.enable()


def _after_fork() -> None:
    """End, in a child process, the pauses of threads that it does not have."""
    global _lock, _num_pauses
    _lock = RLock()
    if _num_pauses:
        _num_pauses = 1
        resume_gc()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
