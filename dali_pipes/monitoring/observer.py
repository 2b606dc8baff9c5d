"""What a recorder tells those who watch a loader: each call of a stage, and each batch that is handed over."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dali_pipes.monitoring.counts import Stage


@dataclass(frozen=True, slots=True)
class Span:
    """One call of a stage. Times are by `gpu_aug.compiled.clock`, in seconds.

    Attributes:
        stage: The stage.
        thread: Name of the thread that worked on it.
        thread_id: The system's number of it, as of `threading.get_native_id`.
        process: The system's number of its process.
        began: When it began.
        ended: Not before that. Calls of other stages within, by the same thread, have spans of their own.
        samples: Samples that it worked on.
        num_bytes: See `dali_pipes.monitoring.counts.StageCounts`.
        step: The step that it worked for; None where it does not know.
    """

    stage: Stage
    thread: str
    thread_id: int
    process: int
    began: float
    ended: float
    samples: int
    num_bytes: int
    step: int | None


@dataclass(frozen=True, slots=True)
class Handed:
    """A batch that the training loop gets. Times are as of Span.

    Attributes:
        step: Its step.
        samples: Its rows.
        ready: How many finished batches lay there when it was asked for.
        asked: When it was asked for.
        got: When it was handed over.
    """

    step: int
    samples: int
    ready: int
    asked: float
    got: float


class Observer(Protocol):
    """Watches a loader. It is called often, by the threads that work, and must neither wait nor fail."""

    def span(self, span: Span) -> None:
        """Take note of a span that is over; called by the thread that made it, or took it from a helper process."""

    def handed(self, handed: Handed) -> None:
        """Take note of a batch; called by the training loop's thread."""

    def left(self, now: float) -> None:
        """Take note that a loop is over; called by the thread that ends it."""


class Spans:
    """Keeps spans until somebody takes them: an observer in a helper process."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._lock = threading.Lock()

    def span(self, span: Span) -> None:
        """Keep a span."""
        with self._lock:
            self._spans.append(span)

    def handed(self, handed: Handed) -> None:
        """Nobody gets batches here."""

    def left(self, now: float) -> None:
        """No loop ends here."""

    def taken(self) -> list[Span]:
        """Return those that came since the last time."""
        with self._lock:
            taken, self._spans = self._spans, []
            return taken


def shifted(spans: Sequence[Span], seconds: float) -> list[Span]:
    """Return spans so much later, by another process's clock."""
    return [replace(span, began=span.began + seconds, ended=span.ended + seconds) for span in spans]
