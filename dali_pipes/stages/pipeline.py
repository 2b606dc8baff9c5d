"""The steps of a loop that are in flight: the source of batches, the decoder, and the queue of steps for both."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from dali_pipes.errors import first_of
from dali_pipes.stages.data import Fetched, Finished, Images, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.threads import Workers
from dali_pipes.steps.schedule import Plan

_log = logging.getLogger(f"gpu_aug.{__name__}")


class BatchSource(Protocol):
    """Makes the batches of a loop: takes plans and returns finished steps in the same order.

    Attributes:
        reusable: Parts that later loops can reuse once all steps of this loop are taken; None if nothing can be reused.
    """

    reusable: Any

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one; it may change."""

    def start(self, plan: Plan) -> None:
        """Start making a step, without waiting for it."""

    def ready(self) -> int:
        """Return how many steps, from the oldest on, are finished as far as the host knows."""

    def describe_remote_threads(self, seconds: float, /) -> str:
        """Return a text about what threads in other processes do; "" if no other process works for this source.

        It may be called while another thread is in `take`.

        Args:
            seconds: Longest time to wait for an answer.
        """

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""

    def close(self) -> None:
        """Discard the steps in flight and end the threads."""


class Decoder(ABC):
    """Decodes steps for a `Pipeline`, which holds the queue of steps; a decoder has no queue.

    `prepare` runs in any thread. The other methods run in the thread that takes the steps, in step order. Exception:
    `Pipeline.make` calls `start` and `finish` of a decoder without lookahead in any thread, several at once.

    Attributes:
        capacity: Count of steps that may be in flight besides the current one, counted from the fetch; it may change.
        depth: Count of steps that may be between `start` and `finish`: the length of DALI's own queue. 0 if `start`
            does nothing.
        lookahead: For how many of the oldest steps `finish` is called before the first of them is handed over. With 2,
            the next step is augmented while the training loop uses the current one. 0 if `finish` never waits; then
            it is called for each step as soon as the step is prepared.
    """

    capacity: int
    depth: int = 0
    lookahead: int = 2

    @abstractmethod
    def prepare(self, fetched: Fetched) -> Any:
        """Do the host's part of decoding a step; the result is passed to `start` and `finish`."""

    def start(self, prepared: Any) -> None:  # noqa: B027 - most decoders have no queue
        """Put a step into the queue of the device, if the decoder has such a queue; return at once."""

    @abstractmethod
    def finish(self, prepared: Any) -> Pending:
        """Wait until a step is decoded, start augmenting its canvases, and return the step in progress."""

    def close(self) -> None:  # noqa: B027 - as for `start`
        """Discard the started steps.

        Raises:
            LoaderError: The decoder has found out that images of steps that were already handed over are wrong.
        """


@dataclass(slots=True)
class _Step:
    """A step in flight.

    Attributes:
        plan: The plan of the step.
        prepared: The result of the decoder's `prepare`; with lookahead, None once the decoder has finished the step.
        keys: The keys of its samples; empty until they are fetched.
        is_started: Whether the step was passed to the decoder's `start`.
        pending: The step while it is augmented; None until the decoder has finished it.
        error: An earlier error, which is raised when the step is taken.
    """

    plan: Plan
    prepared: Future[Any] | None = None
    keys: Sequence[str] = ()
    is_started: bool = False
    pending: Pending | None = None
    error: Exception | None = None

    @property
    def is_in_decoder(self) -> bool:
        return self.is_started and self.pending is None and self.error is None

    def is_done(self) -> bool:
        return self.error is not None or (self.pending is not None and self.pending.done())

    def __str__(self) -> str:
        samples = f" (samples {first_of(self.keys)})" if self.keys else ""
        return f"step {self.plan.step} of epoch {self.plan.epoch}{samples}"


class Pipeline:
    """Makes batches with threads of this process; see BatchSource.

    On a GPU, a step is augmented on the side stream while the training loop uses the previous step. The work is launched
    when the previous step is taken, if the canvases are rendered by then. So the GPU holds the images of one more step.

    Args:
        fetcher: The first stage.
        decoder: The second stage, which starts the third.
        workers: The threads of the stages.
        reusable: See BatchSource.
    """

    def __init__(
        self, fetcher: Fetcher, decoder: Decoder, workers: Workers, reusable: Any = None
    ) -> None:
        self.reusable = reusable
        self._fetcher, self._decoder, self._workers = fetcher, decoder, workers
        self._steps: deque[_Step] = deque()
        self._latest: Plan | None = None

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one; it may change."""
        return self._decoder.capacity

    def start(self, plan: Plan) -> None:
        """Start making a step, without waiting for it."""
        self._latest = plan
        self._steps.append(self._fetch(plan))

    def ready(self) -> int:
        """Return how many steps, from the oldest on, are finished as far as the host knows."""
        self._fill_decoder()
        return sum(1 for _ in takewhile(_Step.is_done, list(self._steps)))

    def describe_remote_threads(self, _seconds: float, /) -> str:
        """Return "": all threads are in this process."""
        return ""

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step and return it; launch the next step if its canvases are rendered.

        Raises:
            Exception: The exception of a stage of this step, with a note that names the step and its samples.
        """
        self._fill_decoder()
        for step in list(self._steps)[: max(self._decoder.lookahead, 1)]:
            if self._steps[0].error is None:
                self._finish(step)
        made = _wait(self._steps.popleft())
        self._fill_decoder()
        self._launch_next()
        return made

    def make(self, plan: Plan) -> tuple[Finished, Images]:
        """Make and return a single step outside the queue.

        Any thread may call it if the decoder has no lookahead.
        """
        step = self._fetch(plan)
        self._finish(step)
        return _wait(step)

    def close(self) -> None:
        """Discard the steps in flight and end the threads."""
        self._workers.close()
        try:
            self._decoder.close()
        finally:
            # Breaks reference cycles: a step that failed as its threads ended refers to itself and to this object by its traceback.
            for step in self._steps:
                step.prepared = None
            self._steps.clear()
            if self._latest is not None:
                self._fetcher.finish(self._latest)

    def _fetch(self, plan: Plan) -> _Step:
        """Let a thread fetch and prepare a step."""
        step = _Step(plan)
        step.prepared = self._workers.submit("read", self._prepare, step)
        return step

    def _prepare(self, step: _Step) -> Any:
        fetched = self._fetcher.fetch(step.plan)
        # Set before `prepare`, so that its errors name the samples, too.
        step.keys = fetched.keys
        return self._decoder.prepare(fetched)

    def _fill_decoder(self) -> None:
        """Start as many steps as the decoder has room for; if it has no queue, finish the prepared steps."""
        steps = list(self._steps)  # a copy: in a helper process, another thread appends steps
        if not self._decoder.lookahead:
            for step in steps:
                if step.prepared is not None and not step.prepared.done():
                    return
                self._finish(step)
            return
        room = self._decoder.depth - sum(step.is_in_decoder for step in steps)
        for step in [step for step in steps if not step.is_started][: max(room, 0)]:
            self._start(step)

    def _start(self, step: _Step) -> None:
        """Pass a step to the decoder once it is prepared."""
        assert step.prepared is not None
        try:
            self._decoder.start(step.prepared.result())
        except Exception as error:  # noqa: BLE001 - of any stage
            self._fail(step, error)
        step.is_started = True

    def _finish(self, step: _Step) -> None:
        """Wait until a step is decoded, and start augmenting it."""
        if not step.is_started:
            self._start(step)
        if not step.is_in_decoder or step.prepared is None:
            return
        try:
            step.pending = self._decoder.finish(step.prepared.result())
        except Exception as error:  # noqa: BLE001 - of any stage
            self._fail(step, error)
        if self._decoder.lookahead:
            spent, step.prepared = [step.prepared], None
            if self._decoder.depth:
                # Freeing the many files of a step takes as long as everything else here, so a thread does it. Without a queue
                # the decoder has prepared GPU memory, which must be freed at once.
                self._workers.pool.submit(spent.clear)
            self._fill_decoder()

    def _fail(self, step: _Step, error: Exception) -> None:
        step.error = error
        if self._steps and step is not self._steps[0]:
            # Logged now: if the loop is left before this step is taken, its error is never raised.
            _log.warning("%s failed ahead of its turn", step, exc_info=error)

    def _launch_next(self) -> None:
        """Launch the augmentation of the next step on a GPU, if its canvases are rendered."""
        if not self._steps or (pending := self._steps[0].pending) is None:
            return
        try:
            pending.start()
        except Exception:  # noqa: BLE001 - `wait` raises it if it fails again
            # The GPU may be out of memory only because it holds the images of two steps; so `wait` tries again.
            _log.warning(
                "%s could not be launched on the GPU ahead of its turn; it is launched again then",
                self._steps[0],
                exc_info=True,
            )


def _wait(step: _Step) -> tuple[Finished, Images]:
    """Wait until a step is augmented; an error gets a note that names the step."""
    try:
        if step.error is not None:
            raise step.error
        assert step.pending is not None
        return step.pending.wait()
    except Exception as error:
        error.add_note(f"raised while making {step}")
        raise
