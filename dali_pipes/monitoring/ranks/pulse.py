"""Pulse: what a loop notes of itself while it runs, for others to look at; noting costs 3 us per batch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dali_pipes.monitoring.ranks.rank_report import State
from gpu_aug.compiled.clock import clock


def _nothing(seconds: float) -> str:
    del seconds
    return ""


class Pulse:
    """Where a loop stands. The thread of the training loop writes it, others read it.

    A loop begins with waiting, for its first batch.

    Args:
        epoch: Its epoch.

    Attributes:
        steps: Batches that were handed over.
        samples: Rows of these.
        first: When the first of them was handed over, by `clock`; None before that.
        bad_samples: Bad samples in them.
        thread: Number of the thread of the training loop.
        account: Asks a helper process what it is doing; waits so many seconds for the answer, "" if there is none.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.steps = self.samples = self.bad_samples = 0
        self.first: float | None = None
        self.thread = threading.get_ident()
        self.account: Callable[[float], str] = _nothing
        self._asked: float | None = clock()
        self._since = clock()
        self._wait_seconds = 0.0
        self._is_over = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Note that the training loop waits for a batch in this block."""
        self.thread = threading.get_ident()
        if self._asked is None:
            self._asked = self._since = clock()
        try:
            yield
        finally:
            now = clock()
            if self.first is not None:
                self._wait_seconds += max(0.0, now - self._asked)
            self._asked, self._since = None, now

    def hand_over(self, samples: int, bad_samples: int) -> None:
        """Note a batch."""
        self.steps += 1
        self.samples += samples
        self.bad_samples += bad_samples
        if self.first is None:
            self.first = clock()

    def end(self) -> None:
        """Note that the loop is over."""
        self._asked, self._since, self._is_over = None, clock(), True
        self.account = _nothing  # it holds the memory of batches

    @property
    def state(self) -> State:
        """What the process waits for."""
        if self._is_over:
            return "over"
        return "training loop" if self._asked is None else "loader"

    def state_seconds(self, now: float) -> float:
        """For how long, at a time by `clock`."""
        return max(0.0, now - self._since)

    def wait_seconds(self, now: float) -> float:
        """Seconds from the first batch on in which the training loop waited, the present wait included."""
        asked = self._asked
        under_way = max(0.0, now - asked) if asked is not None and self.first is not None else 0.0
        return self._wait_seconds + under_way
