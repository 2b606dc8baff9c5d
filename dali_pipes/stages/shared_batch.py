"""Receive the steps that helper processes or Ray workers make."""

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dali_pipes.monitoring.observer import shift_spans
from dali_pipes.monitoring.work import Rows
from dali_pipes.stages.augment import Engines
from dali_pipes.stages.cuda_streams import Ahead, SideStream
from dali_pipes.stages.data import Finished, Images, Pending, failed
from dali_pipes.stages.job import Report
from dali_pipes.steps.schedule import Plan
from gpu_aug.compiled.clock import clock


@dataclass(frozen=True, slots=True)
class SentStep:
    """A step that another process sends.

    Attributes:
        report: The report of the step, with the error if it could not be made.
        metadata: The pickled step without its images; empty after an error.
        images: Returns the images or canvases of the step, per view; the memory must not be changed.
        clock_ahead_seconds: Seconds to add to times of the other process's clock; 0 on the same machine.
    """

    report: Report
    metadata: bytes | memoryview
    images: Callable[[Finished], Sequence[torch.Tensor]]
    clock_ahead_seconds: float = 0.0


class BatchMakers(Protocol):
    """Other processes that make steps: helper processes, or workers on a Ray cluster.

    Attributes:
        capacity: Number of steps that may be in flight besides the current one.
        left_out: Seconds of compiling in these processes that the clock of the training process has excluded.
    """

    capacity: int
    left_out: float

    def start(self, plan: Plan, *, is_watched: bool) -> Any:
        """Start a step, and return a handle for it at once.

        Args:
            plan: The step.
            is_watched: Whether the training process has observers, which need each stage call.
        """

    def num_ready(self, handles: Iterable[Any]) -> int:
        """Return how many of these steps, counted from the first one, can be received without waiting."""

    def receive(self, handle: Any) -> SentStep:
        """Wait for the oldest step that was not received yet, and return it."""

    def drop(self, handles: Iterable[Any]) -> None:
        """Discard steps that will not be received."""

    def describe_remote_threads(self, seconds: float) -> str:
        """Return a text about what threads in other processes do; see `BatchSource.describe_remote_threads`."""


class RemoteBatchSource:
    """Receives batches that other processes make; see BatchSource.

    On a GPU, it augments the next step, if it is ready, while it hands one over.

    Args:
        makers: The processes.
        variants: The engines of each recipe of the run. They allocate the batches, and on a GPU they augment the
            received canvases.
        reusable: See BatchSource.
    """

    def __init__(
        self, makers: BatchMakers, variants: Sequence[Engines], reusable: Any = None
    ) -> None:
        self.capacity, self.reusable = makers.capacity, reusable
        self._makers, self._variants, self._recorder = makers, variants, variants[0].recorder
        self._side = SideStream(variants[0].device)
        self._under_way: deque[Any] = deque()
        self._next: Pending | None = None

    def start(self, plan: Plan) -> None:
        """Start making a step, without waiting for it."""
        is_watched = bool(self._recorder.observers)
        self._under_way.append(self._makers.start(plan, is_watched=is_watched))

    def ready(self) -> int:
        """Return how many steps, from the oldest on, are finished."""
        return self._makers.num_ready(self._under_way) + (self._next is not None)

    def describe_remote_threads(self, seconds: float) -> str:
        """Describe what threads in the other processes do."""
        return self._makers.describe_remote_threads(seconds)

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step, and return it with its images."""
        step, self._next = self._next or self._received(), None
        made = step.wait()
        if self._side.stream is not None and self._makers.num_ready(self._under_way):
            try:
                self._next = self._received()
            except Exception as error:  # noqa: BLE001 - the next `take` raises it
                self._next = failed(error)
        return made

    def close(self) -> None:
        """Discard all steps in progress."""
        self._next = None
        self._makers.drop(self._under_way)
        self._under_way.clear()

    def _received(self) -> Pending:
        made = self._receive()
        return Pending(lambda _: made)

    def _receive(self) -> tuple[Finished, Ahead]:
        began = time.perf_counter()
        sent = self._makers.receive(self._under_way[0])
        waited = time.perf_counter() - began
        self._under_way.popleft()
        report = sent.report
        # Processes compile the same functions at the same time, so only time beyond the longest so far is added.
        if (compiled := report.left_out - self._makers.left_out) > 0:
            clock.leave_out(min(compiled, waited))
            self._makers.left_out = report.left_out
        self._recorder.absorb(report.counts, report.thread_seconds)
        shift = sent.clock_ahead_seconds + report.left_out - clock.left_out
        self._recorder.send_spans(shift_spans(report.spans, shift))
        if report.error is not None:
            raise report.error
        finished: Finished = pickle.loads(sent.metadata)
        engines = self._variants[finished.plan.variant]
        return take_over(engines, finished, sent.images(finished), self._side)


def take_over(
    engines: Engines, finished: Finished, shared: Sequence[torch.Tensor], side: SideStream
) -> tuple[Finished, Ahead]:
    """Copy the images of a step into the batch's own memory; on a GPU, copy its canvases there and augment them.

    Args:
        engines: The engines of the step's recipe.
        finished: The step.
        shared: For each view, the step's images or canvases; they are only read, and may be reused after the return.
        side: The CUDA stream that copies and augments.
    """
    recorder, count, work = engines.recorder, len(finished), Rows(finished.plan, ())
    if engines.device.type == "cpu":
        num_bytes = sum(view.nbytes for view in shared)
        with recorder.measure("transfer", samples=count, num_bytes=num_bytes, work=work):
            images = engines.empty(count)
            for mine, theirs in zip(images, shared, strict=True):
                mine.copy_(theirs)
        return finished, Ahead(images, None)
    canvases = engines.canvases(count)
    with recorder.measure("transfer", samples=count, work=work):
        for canvas, theirs in zip(canvases.views, shared, strict=True):
            assert isinstance(canvas, torch.Tensor)  # `frame_of` requires one size for all canvases
            canvas.copy_(theirs)
    return finished, side.run(lambda: engines.augment(finished, engines.upload(canvases)))
