"""Asking something that may never answer."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, ask: Callable[[], T], otherwise: T) -> T:
    """Return what a function returns in time; `otherwise` where it takes longer or raises.

    It is called in a thread of its own, which is left alone where it hangs.
    """
    answers: list[T] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception:  # noqa: BLE001 - whatever it is, there is no answer
            return

    thread = threading.Thread(target=run, name="gpu-aug-watch-question", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else otherwise
