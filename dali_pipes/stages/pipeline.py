"""The steps of a loop that are in flight: what makes batches, what decodes them, and the one queue that leads to both."""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

from dali_pipes.stages.data import Fetched, Finished, Images, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.threads import Workers
from dali_pipes.steps.schedule import Plan

_log = logging.getLogger(f"gpu_aug.{__name__}")

_NUM_NAMED = 3  # keys in a message: enough to find the files, short enough for one line


class BatchSource(Protocol):
    """Makes the batches of a loop: takes plans in and gives finished steps out, in the same order.

    Attributes:
        reusable: The parts that serve later loops too, once all steps of this one are taken; None if there are none.
    """

    reusable: Any

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one; it may change."""

    def start(self, plan: Plan) -> None:
        """Start on a step; returns at once."""

    def ready(self) -> int:
        """Count the steps, from the oldest on, that are finished as far as the host knows."""

    def describe_remote_threads(self, seconds: float, /) -> str:
        """Describe what threads in other processes do, while another thread is in `take`; "" if there are none.

        Args:
            seconds: How long to wait for an answer.
        """

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""

    def close(self) -> None:
        """Drop the steps in flight and end the threads."""


class Decoder(ABC):
    """Decodes steps for a `Pipeline`, which holds the queue of steps; a decoder holds none.

    `prepare` runs in any thread. The other methods run in the thread that takes the steps, in the order of the steps; but
    `Pipeline.make` calls `start` and `finish` of a decoder without lookahead in any thread, several at once.

    Attributes:
        capacity: Number of steps that may be in flight besides the current one, counted from the fetch; it may change.
        depth: How many steps may be between `start` and `finish`: the length of DALI's own queue. 0 if `start` does nothing.
        lookahead: How many of the oldest steps are finished before the first of them is handed over. With 2, the engine
            or our threads work on the next step while the training loop has this one. 0 if `finish` never waits: then
            each step is finished as soon as it is prepared.
    """

    capacity: int
    depth: int = 0
    lookahead: int = 2

    @abstractmethod
    def prepare(self, fetched: Fetched) -> Any:
        """Do the host's part of decoding a step."""

    def start(self, prepared: Any) -> None:  # noqa: B027 - most decoders have no queue
        """Hand a step to the device's queue, where it has one; returns at once."""

    @abstractmethod
    def finish(self, prepared: Any) -> Pending:
        """Wait until a step is decoded, and start augmenting its canvases."""

    def close(self) -> None:  # noqa: B027 - as for `start`
        """Drop the steps that were started.

        Raises:
            LoaderError: Canvases that were handed over turn out to be wrong.
        """


@dataclass(slots=True)
class _Step:
    """A step in flight.

    Attributes:
        plan: Its plan.
        prepared: What the decoder prepares; with lookahead, None once the decoder has finished the step.
        keys: The keys of its samples; empty until they are fetched.
        is_started: Whether the decoder has it.
        pending: The step as it is augmented; None until the decoder has finished with it.
        error: What went wrong before, which is raised when the step's turn comes.
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
        named = ", ".join(self.keys[:_NUM_NAMED])
        more = len(self.keys) - _NUM_NAMED
        samples = f" (samples {named}{f' and {more} more' if more > 0 else ''})" if named else ""
        return f"step {self.plan.step} of epoch {self.plan.epoch}{samples}"


class Pipeline:
    """Makes batches by threads of this process; see BatchSource.

    On a GPU a step is augmented, on the side stream, while the loop has the step before: it is launched as that one is taken, if
    its canvases are rendered by then. So the GPU holds the images of one more step.

    Args:
        fetcher: The first stage.
        decoder: The second stage, which goes on to the third.
        workers: Their threads.
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
        """Start on a step; returns at once."""
        self._latest = plan
        self._steps.append(self._fetch(plan))

    def ready(self) -> int:
        """Count the steps, from the oldest on, that are finished as far as the host knows."""
        self._fill_decoder()
        return sum(1 for _ in takewhile(_Step.is_done, list(self._steps)))

    def describe_remote_threads(self, _seconds: float, /) -> str:
        """Return "": all threads are in this process."""
        return ""

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step, and launch the next one if its canvases are rendered.

        Raises:
            Exception: What a stage of this step raised, with a note that names the step and its samples.
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
        """Make a step alone, in any thread, next to others that are made so; only where our own threads decode."""
        step = self._fetch(plan)
        self._finish(step)
        return _wait(step)

    def close(self) -> None:
        """Drop the steps in flight and end the threads."""
        self._workers.close()
        try:
            self._decoder.close()
        finally:
            # A step that failed as its threads ended refers to this, and to itself, by its traceback.
            for step in self._steps:
                step.prepared = None
            self._steps.clear()
            if self._latest is not None:
                self._fetcher.finish(self._latest)

    def _fetch(self, plan: Plan) -> _Step:
        """Have a thread fetch and prepare a step."""
        step = _Step(plan)
        step.prepared = self._workers.submit("read", self._prepare, step)
        return step

    def _prepare(self, step: _Step) -> Any:
        fetched = self._fetcher.fetch(step.plan)
        step.keys = fetched.encoded.keys  # before `prepare`, whose errors name them, too
        return self._decoder.prepare(fetched)

    def _fill_decoder(self) -> None:
        """Start as many steps as the decoder has room for; without a queue of its own, finish those that are prepared."""
        steps = list(self._steps)  # in a helper process another thread appends to them
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
        """Hand a step to the decoder once it is prepared."""
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
                # A step has many files, and freeing them takes as long as all else here: a thread does it. Without a queue
                # the decoder has prepared memory on the GPU, which must not wait for a thread.
                self._workers.pool.submit(spent.clear)
            self._fill_decoder()

    def _fail(self, step: _Step, error: Exception) -> None:
        step.error = error
        if self._steps and step is not self._steps[0]:
            # A loop that is left before the step's turn would leave no trace of it.
            _log.warning("%s failed ahead of its turn", step, exc_info=error)

    def _launch_next(self) -> None:
        """Launch the augmentation of the next step on a GPU, if its canvases are rendered."""
        if not self._steps or (pending := self._steps[0].pending) is None:
            return
        try:
            pending.start()
        except Exception:  # noqa: BLE001 - `wait` raises it if it fails again
            # Memory may be short only because the GPU has the images of two steps.
            _log.warning(
                "%s could not be launched on the GPU ahead of its turn; it is launched again then",
                self._steps[0],
                exc_info=True,
            )


def _wait(step: _Step) -> tuple[Finished, Images]:
    """Wait until a step is augmented, and name it in an error."""
    try:
        if step.error is not None:
            raise step.error
        assert step.pending is not None
        return step.pending.wait()
    except Exception as error:
        error.add_note(f"raised while making {step}")
        raise
