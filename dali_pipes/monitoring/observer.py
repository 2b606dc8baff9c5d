"""Observers of a loader: they receive each call of a stage, and each batch that the training loop gets."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dali_pipes.monitoring.counts import Stage


@dataclass(frozen=True, slots=True)
class Span:
    """One call of a stage. Times are by `gpu_aug.compiled.clock`, in seconds.

    Attributes:
        stage: The stage.
        thread: Name of the thread that worked on it.
        thread_id: Its number in the system, as of `threading.get_native_id`.
        process: Number of its process in the system.
        began: When it began.
        ended: When it ended. Calls of other stages within, by the same thread, have spans of their own.
        samples: Number of samples that it worked on.
        num_bytes: See `dali_pipes.monitoring.counts.StageCounts`.
        step: The step that it worked for; None if unknown.
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
class BatchEvent:
    """A batch that the training loop received. Times are as of Span.

    Attributes:
        step: Its step.
        samples: Its rows.
        ready: Number of finished batches when it was asked for.
        asked: When it was asked for.
        got: When the training loop got it.
    """

    step: int
    samples: int
    ready: int
    asked: float
    got: float


class Observer:
    """Watches a loader, and by itself ignores all events.

    Methods are called often, by the threads that work; they must neither wait nor fail.
    """

    def on_span(self, span: Span) -> None:
        """Receive a call of a stage that is over, from the thread that made it or took it from a helper process."""

    def on_batch(self, batch: BatchEvent) -> None:
        """Receive a batch, from the thread of the training loop."""

    def on_loop_end(self, now: float) -> None:
        """Receive the end of a loop, from the thread that ends it."""


class Spans(Observer):
    """Keeps spans until they are taken, in a helper process."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._lock = threading.Lock()

    def on_span(self, span: Span) -> None:
        """Keep a span."""
        with self._lock:
            self._spans.append(span)

    def take(self) -> list[Span]:
        """Remove and return all spans."""
        with self._lock:
            taken, self._spans = self._spans, []
            return taken


def shift_spans(spans: Sequence[Span], seconds: float) -> list[Span]:
    """Return spans that are this many seconds later, to translate the clock of another process."""
    return [replace(span, began=span.began + seconds, ended=span.ended + seconds) for span in spans]
