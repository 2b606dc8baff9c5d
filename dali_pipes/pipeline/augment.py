"""The last stage: canvases resampled and augmented by a pool of threads, or on the GPU."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from dali_pipes import targets
from dali_pipes.batch import Timings
from dali_pipes.pipeline.fetch import NOTHING, Work
from gpu_aug import BatchFunction, Draws, Engine, Recipe
from gpu_aug.engines.engine import takes_batches

# The most images that a thread takes at once: measured in DECISIONS.md.
_LARGEST_CHUNK = 32

_ALIGNMENT = 64

# Of which a chunk is a multiple: every group of samples that are mixed.
_GROUP = 4

Draw = Callable[["Sheets", int, int], None]
"""Draws the canvases at some places, start to stop (half open), of sheets, and reads the targets of their
rows; the canvases of lost samples become black."""

Canvases = torch.Tensor | list[torch.Tensor]
"""uint8 [n, height, width, 3], or n images of sizes of their own."""


@dataclass(frozen=True, slots=True)
class View:
    """One of the pictures that are made of every sample.

    Attributes:
        recipe: What happens to it.
        engine: Carries out the recipe's batch stage.
        dtype: Data type of the finished images.
        memory_format: Memory format of the finished images.
        device: Where the engine runs.
        num_frames: Frames of a clip; 0 where samples are images.
    """

    recipe: Recipe
    engine: Engine
    dtype: torch.dtype
    memory_format: torch.memory_format
    device: torch.device
    num_frames: int = 0

    @property
    def images_per_row(self) -> int:
        """How many images a sample has."""
        return self.num_frames or 1

    def empty(self, count: int) -> torch.Tensor:
        """Memory for the images of `count` samples, [images, 3, H, W]; see `shape`."""
        count *= self.images_per_row
        size = self.recipe.fixed_size
        shape = (count, 3, *size)
        if self.device.type != "cpu":
            return torch.empty(
                shape, dtype=self.dtype, device=self.device, memory_format=self.memory_format
            )
        last = self.memory_format == torch.channels_last
        memory = _aligned((count, *size, 3) if last else shape, self.dtype)
        return memory.permute(0, 3, 1, 2) if last else memory


def _aligned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Memory that begins at a multiple of 64 bytes, as JAX wants it.

    NumPy asks the system for huge pages, torch does not: 0.06 against 0.24 ms per image of 224x224 in
    float32, all of it page faults.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return torch.from_numpy(memory[start : start + num_bytes]).view(dtype).view(shape)


class Sheets:
    """Memory for what the decode stage draws of some rows, in every view.

    Args:
        work: The batch to which the rows belong.
        rows: The rows; "places" are places in this sequence.
        views: The views; if the decode stage of a view gives all images one size they share one tensor.
        pinned: Whether it goes on to a GPU.

    Attributes:
        canvases: One entry per view.
    """

    def __init__(
        self, work: Work, rows: Sequence[int], views: Sequence[View], *, pinned: bool
    ) -> None:
        self._work = work
        self._times = views[0].images_per_row
        self.rows = rows
        self._empty = partial(torch.empty, dtype=torch.uint8, pin_memory=pinned)
        count = len(rows) * self._times
        self.canvases: list[Canvases] = [
            [torch.empty(0)] * count if size is None else self._empty((count, *size, 3))
            for size in (view.recipe.decode_size for view in views)
        ]

    def canvas(self, place: int, view: int, frame: int = 0) -> torch.Tensor:
        """The canvas of a frame at a place, uint8 [height, width, 3]; of several sizes it is made here."""
        canvases = self.canvases[view]
        number = place * self._times + frame
        if isinstance(canvases, list):
            height, width = self._work.draws[view].windows.canvas[self.rows[place]].tolist()
            canvases[number] = self._empty((height, width, 3))
        return canvases[number]

    def blacken(self, place: int) -> None:
        """Fill the canvases at a place with zeros."""
        for view in range(len(self.canvases)):
            for frame in range(self._times):
                self.canvas(place, view, frame).zero_()


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch whose images are on their way."""

    work: Work
    chunks: list[Future[None]]
    collect: Callable[[], tuple[torch.Tensor, ...]]

    def wait(self) -> tuple[torch.Tensor, ...]:
        """Return the images [images, 3, H, W] of each view once every chunk is done; raise what one raised."""
        for chunk in self.chunks:
            chunk.result()
        return self.collect()


class Finisher:
    """Runs the batch stage, on the CPU in chunks, on a GPU at once for the batch.

    Args:
        views: What is made of every sample.
        timings: Gets the seconds spent decoding, augmenting and copying.
        num_threads: Size of the pool.
    """

    def __init__(self, views: Sequence[View], timings: Timings, num_threads: int) -> None:
        self.views = views
        self.device = views[0].device
        self.timings = timings
        self.pool = single_threaded_pool(num_threads)
        self._num_threads = num_threads

    def spawn(self, work: Work, draw: Draw) -> Pending:
        """Start drawing the canvases of a batch, and on the CPU augmenting them."""
        count = len(work)
        if self.device.type == "cpu":
            images = tuple(view.empty(count) for view in self.views)
            return Pending(work, self.finish(work, draw, images), lambda: images)
        sheets = Sheets(work, range(count), self.views, pinned=True)
        chunks = [
            self.pool.submit(self._draw_chunk, work, draw, sheets, *chunk)
            for chunk in self.chunks(count)
        ]
        return Pending(work, chunks, lambda: self.augment(work, self.upload(sheets)))

    def finish(self, work: Work, draw: Draw, images: Sequence[torch.Tensor]) -> list[Future[None]]:
        """Start drawing and augmenting on the CPU, into `images`, one entry per view."""
        chunks = self.chunks(len(work))
        if not any(takes_batches(view.recipe) for view in self.views):
            return [self.pool.submit(self._finish_chunk, work, draw, images, *c) for c in chunks]
        sheets = Sheets(work, range(len(work)), self.views, pinned=False)
        left = iter(range(len(chunks) - 1, -1, -1))  # the thread that draws the last chunk goes on
        return [
            self.pool.submit(self._finish_together, work, draw, sheets, images, left, *chunk)
            for chunk in chunks
        ]

    def chunks(self, count: int) -> list[tuple[int, int]]:
        """Divide rows into what a thread takes at once, start and stop (half open) of each.

        There are at least two chunks for every thread, unless there are too few rows: a thread that is
        done early finds something to do.
        """
        share = -(-count // (2 * self._num_threads))
        times = self.views[0].images_per_row
        group = _GROUP if times == 1 else max(view.recipe.group for view in self.views)
        size = min(-(-share // group) * group, max(_LARGEST_CHUNK // times // group, 1) * group)
        return [(start, min(start + size, count)) for start in range(0, count, size or 1)]

    def augment(self, work: Work, canvases: Sequence[Canvases]) -> tuple[torch.Tensor, ...]:
        """Run the batch stage of every view on canvases of all rows, on the engines' device."""
        images = tuple(view.empty(len(work)) for view in self.views)
        with self.timings.measure("augment"):
            self._augment(work, canvases, images, 0, len(work))
        return images

    def upload(self, sheets: Sheets) -> list[Canvases]:
        """Copy drawn canvases to the engines' device."""
        # Pinned memory: torch's allocator gives it out again only after this copy is done.
        with self.timings.measure("copy"):
            return [
                [canvas.to(self.device, non_blocking=True) for canvas in canvases]
                if isinstance(canvases, list)
                else canvases.to(self.device, non_blocking=True)
                for canvases in sheets.canvases
            ]

    def move_targets(self, work: Work, start: int, stop: int) -> None:
        """Move the targets of the rows start to stop (half open), a chunk all of which is decoded."""
        recipe, rows = self.views[0].recipe, slice(start, stop)
        if all(found is NOTHING for found in work.found[rows]):
            return
        draws = work.drawn(0, start, stop)
        work.found[rows] = targets.move(recipe, draws, work.found[rows], work.keys[rows])

    def close(self) -> None:
        """End the threads; tasks that have not begun are dropped."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _finish_chunk(
        self, work: Work, draw: Draw, images: Sequence[torch.Tensor], start: int, stop: int
    ) -> None:
        sheets = Sheets(work, range(start, stop), self.views, pinned=False)
        with self.timings.measure("decode"):
            draw(sheets, 0, stop - start)
        with self.timings.measure("augment"):
            self._augment(work, sheets.canvases, images, start, stop)
            self.move_targets(work, start, stop)

    def _finish_together(
        self,
        work: Work,
        draw: Draw,
        sheets: Sheets,
        images: Sequence[torch.Tensor],
        left: Iterator[int],
        start: int,
        stop: int,
    ) -> None:
        """Draw a chunk; augment the whole batch once none is left, for a function of the user takes it together."""
        self._draw_chunk(work, draw, sheets, start, stop)
        if next(left) == 0:
            with self.timings.measure("augment"):
                self._augment(work, sheets.canvases, images, 0, len(work))

    def _draw_chunk(self, work: Work, draw: Draw, sheets: Sheets, start: int, stop: int) -> None:
        with self.timings.measure("decode"):
            draw(sheets, start, stop)
        with self.timings.measure("augment"):
            self.move_targets(work, start, stop)

    def _augment(
        self,
        work: Work,
        canvases: Sequence[Canvases],
        images: Sequence[torch.Tensor],
        start: int,
        stop: int,
    ) -> None:
        for number, view in enumerate(self.views):
            draws, times = work.drawn(number, start, stop), view.images_per_row
            if takes_batches(view.recipe):
                draws = _without_lost(view.recipe, draws, work.data[start:stop])
            if times > 1:
                draws = draws.repeat(times)
            view.engine.run(canvases[number], draws, images[number][start * times : stop * times])


def _without_lost(recipe: Recipe, draws: Draws, data: Sequence[object]) -> Draws:
    """Keep what is in the place of lost samples from functions that take a batch together."""
    kept = np.array([one is not None for one in data], bool)
    if kept.all():
        return draws
    params = tuple(
        drawn | {"apply": drawn["apply"] & kept} if isinstance(leaf, BatchFunction) else drawn
        for leaf, drawn in zip(recipe.batch_leaves, draws.params, strict=True)
    )
    return replace(draws, params=params)


def single_threaded_pool(num_threads: int) -> ThreadPoolExecutor:
    """A pool whose threads each keep torch to themselves.

    The number of threads of an operation belongs to the thread that calls it. Setting it also changes
    what threads started later begin with, so that is put back at the end.
    """
    started = threading.Barrier(num_threads + 1)

    def begin() -> None:
        torch.get_num_threads()  # torch sets a thread's number at its first use: have that behind us
        torch.set_num_threads(1)
        with suppress(threading.BrokenBarrierError):
            started.wait()

    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gpu-aug", initializer=begin)
    try:
        for _ in range(num_threads):
            pool.submit(int)  # each submit starts a thread while all the others are busy beginning
        started.wait()
    except BaseException:
        started.abort()  # else the threads would wait for ever, and Python at its end for them
        raise
    finally:
        torch.set_num_threads(usual)
    return pool
