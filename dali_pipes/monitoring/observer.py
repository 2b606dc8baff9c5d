"""Define observers of a loader, which receive each stage call and each batch of the training loop."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dali_pipes.monitoring.counts import Stage


@dataclass(frozen=True, slots=True)
class Span:
    """One call of a stage. Times are those of `gpu_aug.compiled.clock`, in seconds.

    Attributes:
        stage: The stage.
        thread: Name of the thread.
        thread_id: Native id of the thread, see `threading.get_native_id`.
        process: Id of the process.
        began: Start time of the call.
        ended: End time of the call. Nested calls of other stages in this thread have their own spans.
        samples: Count of samples in the call.
        num_bytes: For read and decode, encoded bytes; for other stages, bytes that were produced or copied.
        step: The step of the samples; None if unknown.
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
    """A batch that the training loop received. Times are those of `gpu_aug.compiled.clock`, in seconds.

    Attributes:
        step: The step of the batch.
        samples: Count of the batch's rows.
        ready: Count of finished batches when the batch was requested.
        asked: Time of the request.
        got: Time at which the training loop received it.
    """

    step: int
    samples: int
    ready: int
    asked: float
    got: float


class Observer:
    """Base class of observers; it ignores all events.

    The working threads call the methods often, so these must neither block nor raise.
    """

    def on_span(self, span: Span) -> None:
        """Receive a finished stage call, in the thread that made it or that received it from a helper process."""

    def on_batch(self, batch: BatchEvent) -> None:
        """Receive a batch, in the thread of the training loop."""

    def on_loop_end(self, now: float) -> None:
        """Receive the end of a loop, in the thread that ends it."""


class Spans(Observer):
    """Collects spans in a helper process until they are sent."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._lock = threading.Lock()

    def on_span(self, span: Span) -> None:
        """Store a span."""
        with self._lock:
            self._spans.append(span)

    def take(self) -> list[Span]:
        """Remove and return all spans."""
        with self._lock:
            taken, self._spans = self._spans, []
            return taken


def shift_spans(spans: Sequence[Span], seconds: float) -> list[Span]:
    """Return spans moved by some seconds, to convert times of another process's clock."""
    return [replace(span, began=span.began + seconds, ended=span.ended + seconds) for span in spans]
