"""The decode stage on our own threads, shared by a loader and its helper process."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from itertools import takewhile
from typing import Literal

from dali_pipes.decode.cpu import render_encoded
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.decode.sample_images import render_images
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.stages.data import Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.threads import Render, Workers
from dali_pipes.video.render_clip import ClipRenderer


class CpuDecoder:
    """Decodes images and clips on our own threads, which then augment the canvases they rendered; see Decoder.

    Args:
        fetcher: Says what is decoded, and deals with bad samples.
        spawn: Starts rendering a step, and what comes after that.
        prefetch: Number of steps that may be in flight besides the current one; "auto" is as many as keep the workers busy.
        workers: The threads.
        fast: Whether JPEGs may be decoded at a smaller size.
        store: Remembers the checkpoints of JPEGs; None remembers none.
    """

    lookahead = 1

    def __init__(
        self,
        fetcher: Fetcher,
        spawn: Callable[[Fetched, Render], Pending],
        prefetch: int | Literal["auto"],
        workers: Workers,
        *,
        fast: bool = False,
        store: SeekPointStore | None = None,
    ) -> None:
        self._prefetch, self._workers = prefetch, workers
        self._fetcher, self._spawn, self._fast, self._store = fetcher, spawn, fast, store
        self._under_way: deque[Future[Pending]] = deque()

    @property
    def capacity(self) -> int:
        """Number of steps that may be in flight besides the current one."""
        return self._workers.steps_ahead if self._prefetch == "auto" else self._prefetch

    def prepare(self, fetched: Fetched) -> Pending:
        """Start rendering and augmenting a step."""
        return self._spawn(fetched, self._render_of(fetched))

    def has_room(self) -> bool:
        """Steps wait for the threads alone."""
        return True

    def push(self, prepared: Future[Pending]) -> None:
        """Put a step behind the others."""
        self._under_way.append(prepared)

    def ready(self) -> int:
        """How many steps are finished."""
        return sum(1 for _ in takewhile(_is_finished, self._under_way))

    def take(self) -> Pending:
        """Wait until the oldest step is fetched."""
        return self._under_way.popleft().result()

    def close(self) -> None:
        """Let go of the steps; pending work belongs to the threads."""
        self._under_way.clear()

    def _render_of(self, fetched: Fetched) -> Render:
        if self._fetcher.clips is not None:
            return ClipRenderer(self._fetcher, fetched)
        if not self._fetcher.images.is_usual:
            return partial(render_images, self._fetcher)
        with self._fetcher.recorder.measure("header", work=fetched.work):
            renderer = JpegRenderer(fetched, fast=self._fast, store=self._store)
        return partial(render_encoded, self._fetcher, renderer)


def _is_finished(step: Future[Pending]) -> bool:
    return step.done() and step.exception() is None and step.result().done()
