"""The decode stage on our own threads, in a loader and in its helper processes."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from dali_pipes.decode.cpu import render_encoded, render_images
from dali_pipes.decode.jpeg_batch import JpegRenderer
from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.stages.data import Fetched, Pending
from dali_pipes.stages.fetch import Fetcher
from dali_pipes.stages.pipeline import Decoder
from dali_pipes.stages.threads import Render, Workers
from dali_pipes.video.render_clip import ClipRenderer


class CpuDecoder(Decoder):
    """Decodes images and clips on our own threads, which also augment the rendered canvases; see Decoder.

    Args:
        fetcher: Knows the channels and depth of the images, and replaces bad samples.
        spawn: Starts rendering a step and augmenting it afterwards.
        prefetch: Count of steps in flight besides the current one; "auto" chooses as many as keep the workers busy.
        workers: The threads.
        fast: Whether JPEGs may be decoded at a smaller size.
        store: Stores the seek points of JPEGs; None stores none.
    """

    lookahead = 0  # threads continue from rendering to augmenting without `finish`

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

    @property
    def capacity(self) -> int:  # type: ignore[override]
        """Number of steps that may be in flight besides the current one; with "auto" it depends on the size of steps."""
        return self._workers.steps_ahead if self._prefetch == "auto" else self._prefetch

    def prepare(self, fetched: Fetched) -> Pending:
        """Start rendering and augmenting a step."""
        return self._spawn(fetched, self._render_of(fetched))

    def finish(self, prepared: Pending) -> Pending:
        """Return the step unchanged: the threads continue from rendering to augmenting by themselves."""
        return prepared

    def _render_of(self, fetched: Fetched) -> Render:
        if self._fetcher.clips is not None:
            return ClipRenderer(self._fetcher, fetched)
        if not self._fetcher.has_jpegs:
            return partial(render_images, self._fetcher)
        with self._fetcher.recorder.measure("header", work=fetched.work):
            renderer = JpegRenderer(fetched, fast=self._fast, store=self._store)
        return partial(render_encoded, self._fetcher, renderer)
