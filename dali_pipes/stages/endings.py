"""End loops, threads and processes: at Python's exit, after a fork, and during garbage collection."""

import _thread
import atexit
import gc
import logging
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import cache
from typing import Any, Literal

_log = logging.getLogger(f"gpu_aug.{__name__}")

LOOPS: weakref.WeakSet[Generator[Any]] = weakref.WeakSet()
"""The loops that this process has started; see `end_loops_at_exit`."""

_PARENT_LOOPS: list[Generator[Any]] = []
"""Loops that were running at a fork. They stay open in the child: ending them there would end the parent's helper
processes."""

_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""The phases that the garbage collector has reported, the most recent last."""

# At exit, Python waits at most this long for threads that end loops: a hung helper process must not block the training process.
_EXIT_SECONDS = 5.0

_RUNNING_ENDS: list[_thread.LockType] = []
"""One lock per thread of `end`; the thread holds it until it is done."""


def is_collecting() -> bool:
    """Return whether the garbage collector may be the caller.

    The result is True while any thread collects, so in rare cases the caller is not the collector.
    """
    # One call in C, because another thread may change the order between two calls.
    return list(_PHASES)[-1] == "start"


# gc calls move_to_end(phase, info): the dictionary `info` counts as last=True. A callback written in Python could lose Ctrl-C.
gc.callbacks.append(_PHASES.move_to_end)  # type: ignore[arg-type]


def end(work: Callable[[], object]) -> None:
    """Call a function that ends threads or processes; if the garbage collector is the caller, call it in a new thread.

    The collector may run at any point, even while its thread holds a lock of an executor, an event or a process. Ending
    these takes the same locks, so the thread would wait for itself; see DECISIONS.md, "Garbage collection in threads".
    """
    if not is_collecting():
        work()
        return
    lock = _thread.allocate_lock()
    lock.acquire()
    _RUNNING_ENDS.append(lock)
    # not `threading.Thread`, which takes locks, too
    _thread.start_new_thread(_end_in_thread, (work, lock))


def _end_in_thread(work: Callable[[], object], lock: _thread.LockType) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - there is no caller that it could reach
        _log.exception("a loop that was garbage-collected could not be ended")
    finally:
        _RUNNING_ENDS.remove(lock)
        lock.release()


@cache
def end_loops_at_exit(decoder: Literal["cpu", "dali", "cuda"]) -> None:  # noqa: ARG001 - once for each
    """Ensure that loops that still run at exit end before Python's modules and before DALI.

    Python calls exit functions in reverse order of registration, so for "dali" call this after DALI is loaded.
    """
    atexit.register(_end_loops)


def _end_loops() -> None:
    with ExitStack() as all_loops:  # closes the other loops, too, if one raises
        for loop in list(LOOPS):
            all_loops.callback(loop.close)
    wait_for_ends()


def wait_for_ends() -> None:
    """Wait up to _EXIT_SECONDS for the threads of `end`."""
    for lock in list(_RUNNING_ENDS):
        lock.acquire(timeout=_EXIT_SECONDS)


def _leave_to_parent() -> None:
    _PARENT_LOOPS.extend(LOOPS)
    LOOPS.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
