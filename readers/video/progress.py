"""A text progress bar for long tasks."""

import sys
import time
from collections.abc import Callable

_WIDTH = 40
"""Width of the bar in characters, which leaves room for the text in 80 columns."""
_STEP_SECONDS = 0.1
"""Time between two drawings: more would flicker."""
_QUIET_SECONDS = 1.0
"""Tasks that end sooner show no bar."""


def terminal_bar(what: str) -> Callable[[int, int], None]:
    """Return a function that draws a progress bar on stderr, given the finished and the total number of items.

    It draws nothing if stderr is not a terminal, or if the task ends within a second.

    Args:
        what: Text before the bar, such as "scanning videos".
    """
    begun = time.monotonic()
    drawn = begun + _QUIET_SECONDS - _STEP_SECONDS

    def show(done: int, total: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        is_last = done == total and now - begun > _QUIET_SECONDS
        if not sys.stderr.isatty() or (now - drawn < _STEP_SECONDS and not is_last):
            return
        drawn = now
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        end = "\n" if is_last else ""
        sys.stderr.write(f"\r{what} [{bar}] {done:,}/{total:,}{end}")
        sys.stderr.flush()

    return show
