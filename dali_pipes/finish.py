"""The last stage: canvases resampled and augmented by a pool of threads, or on the GPU."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from dali_pipes.batch import Timings
from dali_pipes.work import Work
from gpu_aug import Engine

# Images that a thread takes at once, so that they stay in its cache: measured in DECISIONS.md.
CHUNK = 4

# Draws a row's canvas into uint8 [height, width, 3]; False if the row's sample is lost.
DrawRow = Callable[[int, torch.Tensor], bool]


@dataclass(frozen=True, slots=True)
class Target:
    """What the finished images look like.

    Attributes:
        canvas: Height and width after the decode stage.
        size: Height and width after the batch stage.
        dtype: Of the images.
        memory_format: Of the images.
        device: Where the engine runs.
    """

    canvas: tuple[int, int]
    size: tuple[int, int]
    dtype: torch.dtype
    memory_format: torch.memory_format
    device: torch.device

    def empty(self, count: int) -> torch.Tensor:
        """Memory for a batch, [count, 3, H, W]."""
        shape = (count, 3, *self.size)
        if self.device.type != "cpu":
            return torch.empty(
                shape, dtype=self.dtype, device=self.device, memory_format=self.memory_format
            )
        # NumPy asks the system for huge pages, torch does not: 0.06 against 0.24 ms per image of
        # 224x224 in float32, all of it page faults.
        same_width = {1: np.uint8, 2: np.int16, 4: np.int32}[self.dtype.itemsize]
        if self.memory_format == torch.channels_last:
            memory = np.empty((count, *self.size, 3), same_width).transpose(0, 3, 1, 2)
        else:
            memory = np.empty(shape, same_width)
        return torch.from_numpy(memory).view(self.dtype)


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch whose images are on their way."""

    work: Work
    chunks: list[Future[None]]
    collect: Callable[[], torch.Tensor]

    def wait(self) -> torch.Tensor:
        """Return the images [B, 3, H, W] once every chunk is done; raise what a chunk raised."""
        for chunk in self.chunks:
            chunk.result()
        return self.collect()


class Finisher:
    """Runs the batch stage, on the CPU in chunks, on a GPU at once for the batch.

    Args:
        engine: Carries out the recipe's batch stage.
        target: What it writes.
        timings: Gets the seconds spent decoding, augmenting and copying.
        num_threads: Size of the pool.
    """

    def __init__(self, engine: Engine, target: Target, timings: Timings, num_threads: int) -> None:
        self.engine = engine
        self.target = target
        self.timings = timings
        self.pool = single_threaded_pool(num_threads)

    def spawn(self, work: Work, draw_row: DrawRow) -> Pending:
        """Start drawing the canvases of a batch, and on the CPU augmenting them."""
        count = len(work)
        if self.target.device.type == "cpu":
            images = self.target.empty(count)
            chunks = [
                self.pool.submit(self._finish_chunk, work, draw_row, images, start)
                for start in range(0, count, CHUNK)
            ]
            return Pending(work, chunks, lambda: images)
        canvases = torch.empty((count, *self.target.canvas, 3), dtype=torch.uint8, pin_memory=True)
        chunks = [
            self.pool.submit(self._draw, draw_row, start, canvases[start : start + CHUNK])
            for start in range(0, count, CHUNK)
        ]
        return Pending(work, chunks, lambda: self.augment(work, self._upload(canvases)))

    def augment(self, work: Work, canvases: torch.Tensor) -> torch.Tensor:
        """Run the batch stage on uint8 [B, height, width, 3] on the target's device."""
        images = self.target.empty(len(work))
        with self.timings.measure("augment"):
            self.engine.run(canvases, work.draws, images)
        return images

    def close(self) -> None:
        """End the threads; tasks that have not begun are dropped."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def _finish_chunk(
        self, work: Work, draw_row: DrawRow, images: torch.Tensor, start: int
    ) -> None:
        stop = min(start + CHUNK, len(work))
        canvases = torch.empty((stop - start, *self.target.canvas, 3), dtype=torch.uint8)
        self._draw(draw_row, start, canvases)
        with self.timings.measure("augment"):
            self.engine.run(canvases, work.draws.rows(start, stop), images[start:stop])

    def _draw(self, draw_row: DrawRow, start: int, canvases: torch.Tensor) -> None:
        with self.timings.measure("decode"):
            for offset, canvas in enumerate(canvases):
                if not draw_row(start + offset, canvas):
                    canvas.zero_()

    def _upload(self, canvases: torch.Tensor) -> torch.Tensor:
        # Pinned memory: torch's allocator gives it out again only after this copy is done.
        with self.timings.measure("copy"):
            return canvases.to(self.target.device, non_blocking=True)


def single_threaded_pool(num_threads: int) -> ThreadPoolExecutor:
    """A pool whose threads each keep torch to themselves.

    The number of threads of an operation belongs to the thread that calls it. Setting it also changes
    what threads started later begin with, so that is put back at the end.
    """
    started = threading.Barrier(num_threads + 1)

    def begin() -> None:
        torch.get_num_threads()  # torch sets a thread's number at its first use: have that behind us
        torch.set_num_threads(1)
        started.wait()

    usual = torch.get_num_threads()
    pool = ThreadPoolExecutor(num_threads, thread_name_prefix="gpu-aug", initializer=begin)
    for _ in range(num_threads):
        pool.submit(int)  # each submit starts a thread while all the others are busy beginning
    started.wait()
    torch.set_num_threads(usual)
    return pool
