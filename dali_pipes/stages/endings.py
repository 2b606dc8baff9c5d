"""Ending loops, threads and processes: as Python exits, after a fork, and where the garbage collector finds them."""

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
"""The loops that this process has begun; see `end_loops_at_exit`."""

_PARENT_LOOPS: list[Generator[Any]] = []
"""Loops that were running at a fork. They stay open in the child: ending them would end the parent's helper processes."""

_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""The phases that the garbage collector has reported, the latest last."""

# Python waits so long at exit for threads that end loops: a helper process that hangs must not hang the training process.
_EXIT_SECONDS = 5.0

_RUNNING_ENDS: list[_thread.LockType] = []
"""For each thread of `end` a lock that it holds until it is done."""


def is_collecting() -> bool:
    """Return whether the garbage collector may have called this.

    Rarely it is another thread that collects.
    """
    return list(_PHASES)[-1] == "start"  # one call in C: the order may change between two steps


# Called with the phase and a dictionary, which counts as true. In a callback written in Python Ctrl-C would be lost.
gc.callbacks.append(_PHASES.move_to_end)  # type: ignore[arg-type]


def end(work: Callable[[], object]) -> None:
    """Call a function that ends threads or processes; in a thread of its own if the garbage collector called this.

    The collector runs in the middle of anything, also while its thread holds a lock of an executor, an event or a
    process. Ending these takes the same locks, so it would wait for its own thread; see DECISIONS.md, "Garbage
    collection in threads".
    """
    if not is_collecting():
        work()
        return
    lock = _thread.allocate_lock()
    lock.acquire()
    _RUNNING_ENDS.append(lock)
    # `threading.Thread` takes locks, too.
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
    """Have the loops that are still running at exit ended before Python's modules, and before DALI.

    Functions registered last are called first: for "dali" call it when DALI is loaded.
    """
    atexit.register(_end_loops)


def _end_loops() -> None:
    with ExitStack() as all_loops:  # ends the others, too, if one raises
        for loop in list(LOOPS):
            all_loops.callback(loop.close)
    wait_for_ends()


def wait_for_ends() -> None:
    """Wait, but not for long, until the threads of `end` are done."""
    for lock in list(_RUNNING_ENDS):
        lock.acquire(timeout=_EXIT_SECONDS)


def _leave_to_parent() -> None:
    _PARENT_LOOPS.extend(LOOPS)
    LOOPS.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
