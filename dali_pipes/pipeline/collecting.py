"""Whether the garbage collector is at work, which can happen in the middle of anything."""

import gc
from collections import OrderedDict

_PHASES = OrderedDict.fromkeys(("start", "stop"))
"""What the garbage collector has told, the latest last."""


def is_collecting() -> bool:
    """Whether the garbage collector may have called this: then locks may be held that others need, and no one expects calls.

    Rarely it is another thread that collects.
    """
    return list(_PHASES)[-1] == "start"  # in one go: between two steps the order may change


# Called with the phase and a dictionary, which counts as true. In a callback written in Python Ctrl-C would be lost.
gc.callbacks.append(_PHASES.move_to_end)  # type: ignore[arg-type]
