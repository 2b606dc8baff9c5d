"""Whether the garbage collector is at work, which can happen in the middle of anything."""

import gc
import threading

_COLLECTING: set[int] = set()
"""The thread in which the garbage collector runs now."""


def is_collecting() -> bool:
    """Whether the garbage collector calls this: then locks may be held that others need, and no one expects calls."""
    return threading.get_ident() in _COLLECTING


def _note_collection(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        _COLLECTING.add(threading.get_ident())
    else:
        _COLLECTING.clear()


gc.callbacks.append(_note_collection)
