"""Crops: the decode stage of a batch, as plain rectangles.

Several size operations in a row (crop, resize, crop) are combined into one crop, one resize and one paste, computed on the host
from the sizes in the image headers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_aug.compiled.first_call import CompiledAtFirstCall

Rows = NDArray[np.int32]
Pair = tuple[int, int]


class Cut(NamedTuple):
    """One row of Crops as Python numbers, which are faster to use than elements of arrays.

    Attributes:
        start: Top-left corner of the crop in the source image.
        shape: Size of the crop.
        resize: Size that the crop is resized to.
        paste: Top-left corner of the resized crop on the canvas.
        canvas: Size of the canvas.
        antialias: Whether the resize is antialiased.
        is_plain: Whether the crop is the canvas, without resizing or padding.
    """

    start: Pair
    shape: Pair
    resize: Pair
    paste: Pair
    canvas: Pair
    antialias: bool
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Crops:
    """The crops of B samples: crop a rectangle, resize it, paste it on a black canvas.

    All pairs are (height, width) or (top, left) in whole pixels.

    Attributes:
        start: Top-left corner of the crop in the source image, int32 [B, 2].
        shape: Size of the crop, int32 [B, 2]; it lies inside the source and is never empty.
        resize: Size that the crop is resized to, int32 [B, 2].
        paste: Top-left corner of the resized crop on the canvas, int32 [B, 2]. Negative numbers crop it further, positive
            ones pad with zeros; the corner may lie outside the canvas.
        canvas: Size of the canvas, which is the result, int32 [B, 2].
        antialias: Whether the resize is antialiased (bilinear, triangle filter).

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
        """Return the crops of samples ``start`` to ``stop`` (exclusive) as views."""
        return crops_of((column[start:stop] for column in columns_of(self)), self.antialias)

    def repeat(self, times: int) -> "Crops":
        """Return the crops with each row repeated ``times`` times in succession."""
        repeated = (np.repeat(column, times, axis=0) for column in columns_of(self))
        return crops_of(repeated, self.antialias)


def columns_of(crops: Crops) -> tuple[Rows, ...]:
    """Return the arrays of Crops as a tuple."""
    return crops.start, crops.shape, crops.resize, crops.paste, crops.canvas


def crops_of(columns: Iterable[Rows], antialias: bool) -> Crops:
    """Return Crops made of these arrays, the inverse of `columns_of`."""
    start, shape, resize, paste, canvas = columns
    return Crops(start, shape, resize, paste, canvas, antialias)


def cuts_of(crops: Crops, start: int = 0, stop: int | None = None) -> list[Cut]:
    """Return the rows ``start`` to ``stop`` (exclusive) of Crops as Python numbers."""
    cuts = []
    columns = (column[start:stop].tolist() for column in columns_of(crops))
    for row in zip(*columns, strict=True):
        first, shape, resize, paste, canvas = map(tuple, row)
        is_plain = shape == resize == canvas and paste == (0, 0)
        cuts.append(Cut(first, shape, resize, paste, canvas, crops.antialias, is_plain))
    return cuts


def compose_crops(
    steps: Sequence[Mapping[str, NDArray[Any]]],
    sizes: NDArray[np.int64],
    *,
    antialias: bool,
) -> Crops:
    """Combine size operations into one crop, resize and paste per sample.

    Args:
        steps: Draws of the operations: crops, then at most one that resamples, then at most one crop. Each has ``start``
            and ``shape``, int64 [B, 2]: the rectangle that is kept, black outside the image. The one that resamples also has
            ``resize``, int64 [B, 2], the size of its result.
        sizes: Height and width of the sources, int64 [B, 2].
        antialias: Value of ``antialias`` in the result.

    If a rectangle that is resampled extends beyond the source, the edge between the image and the black border
    is rounded to a whole pixel of the result.
    """
    stacked = np.empty((len(steps), 3, *sizes.shape), np.int64)
    resampled = len(steps)
    for number, step in enumerate(steps):
        stacked[number, 0], stacked[number, 1] = step["start"], step["shape"]
        stacked[number, 2] = step.get("resize", step["shape"])
        resampled = number if "resize" in step else resampled
    made = np.empty((5, *sizes.shape), np.int32)
    _compose(stacked, resampled, np.ascontiguousarray(sizes), made)
    return crops_of(made, antialias)


@CompiledAtFirstCall
def _compose(steps: Any, resampled: int, sizes: Any, made: Any) -> None:
    """Combine the steps of all samples.

    Args:
        steps: Start, shape and size after each step, int64 [S, 3, B, 2].
        resampled: Index of the step that resamples; S if there is none.
        sizes: Height and width of the sources, int64 [B, 2].
        made: The arrays of Crops, int32 [5, B, 2]; written.
    """
    for row in range(len(sizes)):
        is_seen = True
        for axis in range(2):
            size = sizes[row, axis]
            start, shape = np.int64(0), size  # the cut, in pixels of the source
            paste, resize = np.int64(0), size  # where it stands in the image so far
            canvas = size
            for number in range(len(steps)):
                first, length = steps[number, 0, row, axis], steps[number, 1, row, axis]
                canvas = steps[number, 2, row, axis]
                if number > resampled:
                    paste -= first
                    continue
                scale = canvas / length if number == resampled else 1.0
                low, high = max(paste, first), min(paste + shape, first + length)
                start, shape = start + low - paste, high - low
                paste = np.int64(np.rint((low - first) * scale))
                resize = np.int64(np.rint((high - first) * scale)) - paste
            is_seen = is_seen and shape > 0
            made[0, row, axis] = min(max(start, 0), size - 1)
            made[1, row, axis], made[2, row, axis] = shape, max(resize, 1)
            made[3, row, axis], made[4, row, axis] = paste, canvas
        if not is_seen:  # wholly beside the source: one pixel, pasted beside the canvas
            made[1:3, row] = 1
            for axis in range(2):  # two slices would take Numba 1.5 s more to compile
                made[3, row, axis] = made[4, row, axis]
