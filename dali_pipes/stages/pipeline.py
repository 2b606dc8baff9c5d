"""The pipeline of a loop: fetch -> decode -> augment, with several steps in flight."""

from collections import deque
from concurrent.futures import Future
from itertools import takewhile
from typing import Any, Protocol

from dali_pipes.stages.data import Fetched, Finished, Images, Pending, failed
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.threads import Workers
from dali_pipes.steps.schedule import Plan


class BatchSource(Protocol):
    """Takes plans in and gives finished steps out, in the same order.

    Attributes:
        reusable: What serves later loops too, once all steps of this one are taken; None where nothing does.
    """

    reusable: Any

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one."""

    def start(self, plan: Plan) -> None:
        """Start on a step; returns at once."""

    def ready(self) -> int:
        """How many steps, from the oldest on, are finished as far as the host knows."""

    def account(self, seconds: float) -> str:
        """Say what threads in other processes do, while another thread is in `take`; "" where there are none.

        Args:
            seconds: How long to wait for an answer.
        """

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step."""

    def close(self) -> None:
        """Drop what is under way and end the threads."""


class Decoder(Protocol):
    """The decode stage: gets fetched steps, and hands them over to the augment stage in the same order.

    Only `prepare` is called by threads; all else by the thread that takes the steps.

    Attributes:
        lookahead: Number of decoded steps that are augmented at once, including the current one. A step of which
            it is not known whether it is decoded is waited for, so that its augmentation is launched before the loop asks for it.
    """

    lookahead: int

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one, counted from the fetch; it may change."""

    def prepare(self, fetched: Fetched) -> Any:
        """Prepare a step; its result is pushed."""

    def has_room(self) -> bool:
        """Whether another step can be pushed now."""

    def push(self, prepared: Future[Any]) -> None:
        """Start decoding a step, once it is prepared."""

    def ready(self) -> int:
        """How many steps that were pushed, from the oldest on, are finished as far as the host knows."""

    def take(self) -> Pending:
        """Wait until the oldest step that was pushed is decoded, and start augmenting it."""

    def close(self) -> None:
        """Drop what is under way.

        Raises:
            LoaderError: What was handed over turns out to be wrong.
        """


class Pipeline:
    """Fetches, decodes and augments; see BatchSource.

    On a GPU a step is augmented, on the side stream, while the loop has the step before: it is launched as that one is taken, if
    its canvases are rendered by then. So the GPU holds the images of one more step.

    Args:
        fetcher: The first stage.
        decoder: The second one, which goes on to the third.
        workers: Their threads.
        reusable: See BatchSource.
    """

    def __init__(
        self, fetcher: Fetcher, decoder: Decoder, workers: Workers, reusable: Any = None
    ) -> None:
        self.reusable = reusable
        self._fetcher, self._decoder, self._workers = fetcher, decoder, workers
        self._fetching: deque[Future[Any]] = deque()
        self._num_decoding = 0
        self._latest: Plan | None = None
        self._augmenting: deque[Pending] = deque()

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one; it may change."""
        return self._decoder.capacity

    def start(self, plan: Plan) -> None:
        """Start on a step; returns at once."""
        self._latest = plan
        self._fetching.append(self._workers.submit("read", self._prepare, plan))

    def ready(self) -> int:
        """How many steps, from the oldest on, are finished as far as the host knows."""
        self._push()
        augmented = sum(1 for _ in takewhile(Pending.done, self._augmenting))
        return augmented + (self._decoder.ready() if augmented == len(self._augmenting) else 0)

    def account(self, seconds: float) -> str:
        """All threads are in this process."""
        del seconds
        return ""

    def take(self) -> tuple[Finished, Images]:
        """Wait for the oldest step, and launch the one behind it if its canvases are rendered."""
        self._push()
        while len(self._augmenting) < self._decoder.lookahead and self._num_decoding:
            self._take_decoded()
        oldest = self._augmenting.popleft().wait()
        if not self._augmenting and self._decoder.ready():
            self._take_decoded()
        for step in self._augmenting:
            step.start()
        return oldest

    def make(self, plan: Plan) -> tuple[Finished, Images]:
        """Make a step by itself, beside those that other threads make so; only where our own threads decode."""
        prepared: Pending = self._workers.submit("read", self._prepare, plan).result()
        return prepared.wait()

    def close(self) -> None:
        """Drop what is under way and end the threads."""
        self._workers.close()
        try:
            self._decoder.close()
        finally:
            # A step that failed as its threads ended refers to this by its traceback.
            self._fetching.clear()
            self._augmenting.clear()
            if self._latest is not None:
                self._fetcher.finish(self._latest)

    def _prepare(self, plan: Plan) -> Any:
        return self._decoder.prepare(self._fetcher.fetch(plan))

    def _take_decoded(self) -> None:
        """Wait for the next decoded step; what goes wrong in it is raised in its turn."""
        try:
            step = self._decoder.take()
        except Exception as error:
            if not self._augmenting:
                raise
            step = failed(error)
        self._augmenting.append(step)
        self._num_decoding -= 1
        self._push()

    def _push(self) -> None:
        while self._fetching and self._decoder.has_room():
            self._decoder.push(self._fetching.popleft())
            self._num_decoding += 1
