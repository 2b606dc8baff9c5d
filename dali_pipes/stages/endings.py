"""Ending threads and processes, also where the garbage collector finds that nobody holds them any more."""

import _thread
import gc
import logging
from collections import OrderedDict
from collections.abc import Callable

_log = logging.getLogger(f"gpu_aug.{__name__}")

_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""What the garbage collector has told, the latest last."""

_EXIT_SECONDS = 5.0

_UNDER_WAY: list[_thread.LockType] = []
"""A lock for each thread of `end`, which has it until it is done."""


def is_collecting() -> bool:
    """Whether the garbage collector may have called this.

    Rarely it is another thread that collects.
    """
    return list(_PHASES)[-1] == "start"  # in one go: between two steps the order may change


# Called with the phase and a dictionary, which counts as true. In a callback written in Python Ctrl-C would be lost.
gc.callbacks.append(_PHASES.move_to_end)  # type: ignore[arg-type]


def end(work: Callable[[], object]) -> None:
    """Call something that ends threads or processes; in a thread of its own if the garbage collector called this.

    The collector runs in the middle of anything, also where its thread has a lock of an executor, an event or a
    process. What ends these takes the same locks, so it would wait for its own thread.
    """
    if is_collecting():
        lock = _thread.allocate_lock()
        lock.acquire()
        _UNDER_WAY.append(lock)
        # `threading.Thread` takes locks, too.
        _thread.start_new_thread(_end_apart, (work, lock))
    else:
        work()


def wait_for_ends() -> None:
    """Wait, but not for long, until what `end` does in other threads is done: call it when Python ends."""
    for lock in list(_UNDER_WAY):
        lock.acquire(timeout=_EXIT_SECONDS)


def _end_apart(work: Callable[[], object], lock: _thread.LockType) -> None:
    try:
        work()
    except Exception:  # noqa: BLE001 - nobody waits for it whom it could reach
        _log.exception("a loop that nobody holds any more could not be ended")
    finally:
        _UNDER_WAY.remove(lock)
        lock.release()
