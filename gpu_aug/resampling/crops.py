"""Crops: the decode stage of a batch, as plain rectangles.

Several size operations in a row (crop, resize, crop) become one cut, one resampling and one
paste, computed on the host from the sizes in the image headers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Crops:
    """For each of B samples: cut a rectangle, resample it, paste it on a black canvas.

    All pairs are (height, width) or (top, left) in whole pixels.

    Attributes:
        start: int32 [B, 2], top-left corner of the cut in the source image.
        shape: int32 [B, 2], size of the cut; it lies inside the source and is never empty.
        resize: int32 [B, 2], size that the cut is resampled to.
        paste: int32 [B, 2], where the top-left corner of the resampled cut lands on the canvas.
            Negative is a centre crop, positive is zero padding; it may lie beside the canvas.
        canvas: int32 [B, 2], size of the result.
        antialias: Whether the resampling is antialiased (bilinear, triangle filter).

    Example:
        >>> recipe = Recipe([CenterCrop(32)])
        >>> recipe.draw(0, 0, np.arange(1), np.array([[48, 64]])).crops
        Crops(...)
    """

    start: Rows
    shape: Rows
    resize: Rows
    paste: Rows
    canvas: Rows
    antialias: bool = True

    def __len__(self) -> int:
        return len(self.start)

    def rows(self, start: int, stop: int) -> "Crops":
        """Return the crops of samples ``start`` to ``stop`` (half open) as views."""
        rows = slice(start, stop)
        return Crops(
            self.start[rows],
            self.shape[rows],
            self.resize[rows],
            self.paste[rows],
            self.canvas[rows],
            self.antialias,
        )

    def repeat(self, times: int) -> "Crops":
        """Return every crop ``times`` times in a row."""
        return Crops(
            np.repeat(self.start, times, axis=0),
            np.repeat(self.shape, times, axis=0),
            np.repeat(self.resize, times, axis=0),
            np.repeat(self.paste, times, axis=0),
            np.repeat(self.canvas, times, axis=0),
            self.antialias,
        )


def compose_crops(
    steps: Sequence[Mapping[str, NDArray[Any]]],
    sizes: NDArray[np.int64],
    *,
    antialias: bool,
) -> Crops:
    """Fold size operations into one crop per sample.

    Args:
        steps: The draws of the operations: crops, then at most one that resamples, then at most
            one crop. Each has ``start`` and ``shape``, int64 [B, 2]: the rectangle that is kept
            (black where it leaves the image). The one that resamples also has ``resize``, int64
            [B, 2]: the size it becomes.
        sizes: int64 [B, 2], height and width of the sources.
        antialias: Carried into the result.

    Where the rectangle that is resampled leaves the source, the line between the image and the
    black border falls on the nearest whole pixel of the result.
    """
    start, shape = np.zeros_like(sizes), sizes  # the cut, in pixels of the source
    paste, resize = np.zeros_like(sizes), sizes  # where it stands in the image so far
    canvas = sizes
    resampled = False
    for step in steps:
        canvas = step.get("resize", step["shape"])
        if resampled:
            paste = paste - step["start"]
            continue
        resampled = "resize" in step
        top_left = np.maximum(paste, step["start"])
        bottom_right = np.minimum(paste + shape, step["start"] + step["shape"])
        scale = step["resize"] / step["shape"] if resampled else 1
        start, shape = start + top_left - paste, bottom_right - top_left
        paste = np.rint((top_left - step["start"]) * scale).astype(np.int64)
        resize = np.rint((bottom_right - step["start"]) * scale).astype(np.int64) - paste

    # A rectangle wholly beside the source keeps one pixel, pasted beside the canvas.
    seen = (shape > 0).all(axis=1, keepdims=True)
    return Crops(
        start=np.clip(start, 0, sizes - 1).astype(np.int32),
        shape=np.where(seen, shape, 1).astype(np.int32),
        resize=np.where(seen, np.maximum(resize, 1), 1).astype(np.int32),
        paste=np.where(seen, paste, canvas).astype(np.int32),
        canvas=np.array(canvas, np.int32),
        antialias=antialias,
    )
