"""Memory for canvases, which the decode stage renders, and for the finished images of a view."""

import math
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug import Draws, Engine, Recipe
from gpu_aug.image_kind import USUAL, ImageKind

ViewCanvases = torch.Tensor | list[torch.Tensor]
"""Canvases of one view: uint8 or float32 [images, height, width, C], or a list of images with different sizes."""

_ALIGNMENT = 64  # bytes; see `BatchMemory.empty`
# Largest unused memory of a view, but always one batch. A loop drops and takes several batches in turn: with one unused batch of 472 MB
# (8 windows of 2 x 8 frames of 640x480 in float32) every second one was new memory, which took longer than all other work.
_MOST_UNUSED_BYTES = 1 << 30


class BatchMemory:
    """Memory for batches, which later batches reuse once no tensor and no array refers to it.

    The system clears new memory, which takes 0.06 ms for an image of 224x224 in float32, half as long as
    `imagenet_train` takes for it. The allocator of the C library itself reuses only blocks below 32 MB.
    """

    def __init__(self) -> None:
        # No lock: `pop` and `append` are atomic, and the garbage collector may call `_put` within any statement.
        self._unused: deque[NDArray[np.uint8]] = deque()

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor with arbitrary values, aligned to 64 bytes, so that JAX can use it without a copy.

        NumPy asks the operating system for huge pages, torch does not. For an image of 224x224 in float32, page faults
        take 0.06 ms instead of 0.24 ms.
        """
        num_bytes = math.prod(shape) * dtype.itemsize
        memory = self._take(num_bytes + _ALIGNMENT)
        start = -memory.ctypes.data % _ALIGNMENT
        used = memory[start : start + num_bytes]
        # The storage of the tensor refers to `used` as long as any tensor, view or array shares it.
        weakref.finalize(used, self._put, memory).atexit = False
        return torch.from_numpy(used).view(dtype).view(shape)

    def _take(self, num_bytes: int) -> NDArray[np.uint8]:
        with suppress(IndexError):  # none is left; several threads take memory
            while True:
                memory = self._unused.pop()
                if len(memory) == num_bytes:
                    return memory
        return np.empty(num_bytes, np.uint8)

    def _put(self, memory: NDArray[np.uint8]) -> None:
        if (len(self._unused) + 1) * len(memory) <= _MOST_UNUSED_BYTES or not self._unused:
            self._unused.append(memory)


@dataclass(frozen=True, slots=True)
class View:
    """The settings of one view: a view is one of several pictures made from each sample.

    Attributes:
        recipe: The recipe of the view.
        engine: Runs the recipe's batch stage.
        dtype: The type of the finished images.
        memory_format: The memory format of the finished images.
        device: Device of the engine.
        columns: The images of a sample that the view shows, in their order: indices of frames of its clip, or of its images.
        kind: Channels and depth of the images.
        memory: Memory for the finished images on the CPU.
    """

    recipe: Recipe
    engine: Engine
    dtype: torch.dtype
    memory_format: torch.memory_format
    device: torch.device
    columns: Sequence[int] = range(1)
    kind: ImageKind = USUAL
    memory: BatchMemory = field(default_factory=BatchMemory, compare=False, repr=False)

    @property
    def images_per_row(self) -> int:
        """Count of images of a sample that the view shows."""
        return len(self.columns)

    def empty(self, count: int) -> torch.Tensor:
        """Allocate the images of `count` samples, [images, C, H, W]."""
        count *= self.images_per_row
        size, channels = self.recipe.fixed_size, self.kind.channels
        shape = (count, channels, *size)
        if self.device.type != "cpu":
            return torch.empty(
                shape, dtype=self.dtype, device=self.device, memory_format=self.memory_format
            )
        last = self.memory_format == torch.channels_last
        images = self.memory.empty((count, *size, channels) if last else shape, self.dtype)
        return images.permute(0, 3, 1, 2) if last else images


@dataclass(frozen=True, slots=True)
class Canvases:
    """Memory for the canvases of some rows in every view.

    Attributes:
        views: One entry per view: a tensor if all canvases have one size, else a list.
        columns: For each view, the frames of a row's clip that it shows, or the images of its sample; see View.
        pinned: Whether the canvases are copied to a GPU.
        first: Index of the row whose canvases are those of row 0.
        kind: Channels and depth of the images.
    """

    views: tuple[ViewCanvases, ...]
    columns: tuple[Sequence[int], ...]
    pinned: bool
    first: int = 0
    kind: ImageKind = USUAL

    @property
    def num_rows(self) -> int:
        """How many rows the memory holds."""
        return len(self.views[0]) // len(self.columns[0])

    def first_rows(self, count: int) -> "Canvases":
        """Return the canvases of the first `count` rows; canvases of different sizes are allocated again."""
        nums = [count * len(columns) for columns in self.columns]
        views = tuple(
            [torch.empty(0)] * num if isinstance(view, list) else view[:num]
            for view, num in zip(self.views, nums, strict=True)
        )
        return replace(self, views=views)

    def from_row(self, first: int) -> "Canvases":
        """Return canvases in this object's memory in which row `first` is row 0."""
        return replace(self, first=self.first + first)

    def of(
        self, row: int, draws: Sequence[Draws], drawn_row: int, frame: int = 0
    ) -> list[torch.Tensor]:
        """Return the canvases of a row's frame, one per view that shows it, uint8 or float32 [height, width, C].

        Args:
            row: The row.
            draws: The draws of each view; canvases of different sizes are allocated here, with the sizes of the draws.
            drawn_row: The row in `draws`.
            frame: Index of the frame in its clip, or of the image in its sample.
        """
        canvases = []
        for view, columns, drawn in zip(self.views, self.columns, draws, strict=True):
            if frame not in columns:
                continue
            number = (self.first + row) * len(columns) + columns.index(frame)
            if isinstance(view, list):
                height, width = drawn.crops.canvas[drawn_row].tolist()
                view[number] = empty((height, width), self.kind, pinned=self.pinned)
            canvases.append(view[number])
        return canvases

    def views_with(self, frame: int) -> list[int]:
        """Return the indices of the views that show a frame, in the order of `of`."""
        return [view for view, columns in enumerate(self.columns) if frame in columns]

    def addresses(
        self, rows: NDArray[np.int64], start: int, draws: Sequence[Draws]
    ) -> NDArray[np.int64]:
        """Return the address, height and width of the canvases of some rows: int64 [views, rows, 3].

        Args:
            rows: int64 [rows], the rows.
            start: The row in `draws` that belongs to row 0.
            draws: The draws of each view; canvases of different sizes are allocated here.
        """
        if any(isinstance(view, list) for view in self.views):
            for row in rows.tolist():
                self.of(row, draws, start + row)  # called because it allocates the canvases
        return np.stack(
            [
                addresses_of(view, (self.first + rows) * len(columns))
                for view, columns in zip(self.views, self.columns, strict=True)
            ]
        )

    def blacken(
        self,
        row: int,
        draws: Sequence[Draws],
        drawn_row: int,
        frames: Iterable[int] | None = None,
    ) -> None:
        """Fill the canvases of a row's frames with zeros, of all frames if `frames` is None; see `of` for the arguments."""
        for frame in sorted(set().union(*self.columns)) if frames is None else frames:
            for canvas in self.of(row, draws, drawn_row, frame):
                canvas.zero_()


def make_canvases(views: Sequence[View], num_rows: int, *, pinned: bool) -> Canvases:
    """Allocate memory for the canvases of `num_rows` rows."""
    kind, made = views[0].kind, list[ViewCanvases]()
    for view in views:
        count, size = num_rows * view.images_per_row, view.recipe.decode_size
        made.append(
            [torch.empty(0)] * count if size is None else empty((count, *size), kind, pinned=pinned)
        )
    return Canvases(tuple(made), tuple(view.columns for view in views), pinned, kind=kind)


def addresses_of(canvases: ViewCanvases, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the address, height and width of the canvases with these indices in a view: int64 [n, 3]."""
    if isinstance(canvases, list):
        some = [canvases[number] for number in numbers.tolist()]
        found = [(one.data_ptr(), one.shape[0], one.shape[1]) for one in some]
        return np.array(found, np.int64).reshape(-1, 3)
    places = np.empty((len(numbers), 3), np.int64)
    places[:, 0] = canvases.data_ptr() + numbers * (canvases.stride(0) * canvases.itemsize)
    places[:, 1:] = canvases.shape[1:3]
    return places


def empty(shape: tuple[int, ...], kind: ImageKind = USUAL, *, pinned: bool) -> torch.Tensor:
    """Allocate canvases; `shape` does not include the channels."""
    return torch.empty((*shape, kind.channels), dtype=kind.dtype, pin_memory=pinned)
