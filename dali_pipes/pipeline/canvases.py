"""Canvases: what the decode stage renders, uint8 images that the augment stage goes on with."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dali_pipes.pipeline.views import View
from gpu_aug import Draws

ViewCanvases = torch.Tensor | list[torch.Tensor]
"""Canvases of one view: uint8 [images, height, width, 3], or images of sizes of their own."""


@dataclass(frozen=True, slots=True)
class Canvases:
    """Memory for the canvases of some rows in every view.

    Attributes:
        views: One entry per view; views whose decode stage gives all images one size have one tensor.
        times: Canvases of a row: the frames of a clip, 1 for images.
        pinned: Whether they go on to a GPU.
        first: The row that is called row 0.
    """

    views: tuple[ViewCanvases, ...]
    times: int
    pinned: bool
    first: int = 0

    def from_row(self, first: int) -> "Canvases":
        """The same memory, whose row 0 is row `first` of this."""
        return replace(self, first=self.first + first)

    def of(
        self, row: int, draws: Sequence[Draws], drawn_row: int, frame: int = 0
    ) -> list[torch.Tensor]:
        """The canvases of a row's frame, one per view, uint8 [height, width, 3].

        Args:
            row: The row.
            draws: One entry per view; where canvases have several sizes they are made here as the draws say.
            drawn_row: The row of the draws.
            frame: The number of the frame in its clip.
        """
        number = (self.first + row) * self.times + frame
        canvases = []
        for view, drawn in zip(self.views, draws, strict=True):
            if isinstance(view, list):
                height, width = drawn.windows.canvas[drawn_row].tolist()
                view[number] = empty((height, width, 3), pinned=self.pinned)
            canvases.append(view[number])
        return canvases

    def addresses(self, rows: Sequence[int], draws: Sequence[Draws]) -> NDArray[np.int64]:
        """Address, height and width of the canvases of images: int64 [views, rows, 3]."""
        found = [
            [(one.data_ptr(), one.shape[0], one.shape[1]) for one in self.of(row, draws, row)]
            for row in rows
        ]
        return np.array(found, np.int64).reshape(len(rows), len(draws), 3).transpose(1, 0, 2)

    def blacken(self, row: int, draws: Sequence[Draws], drawn_row: int) -> None:
        """Fill the canvases of a row with zeros."""
        for frame in range(self.times):
            for canvas in self.of(row, draws, drawn_row, frame):
                canvas.zero_()


def make_canvases(views: Sequence[View], num_rows: int, *, pinned: bool) -> Canvases:
    """Make memory for the canvases of so many rows."""
    times = views[0].images_per_row
    count = num_rows * times
    made: list[ViewCanvases] = [
        [torch.empty(0)] * count if size is None else empty((count, *size, 3), pinned=pinned)
        for size in (view.recipe.decode_size for view in views)
    ]
    return Canvases(tuple(made), times, pinned)


def empty(shape: tuple[int, ...], *, pinned: bool) -> torch.Tensor:
    """Memory for canvases, uint8."""
    return torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
