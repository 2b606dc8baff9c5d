"""The segmentations of COCO as masks: polygons and run lengths in, PNG files of one bit a pixel out."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEPS = 5  # polygons are traced on a grid that is five times finer than the pixels
_MAX_PIXELS = 1 << 28
_CHUNK = struct.Struct(">I4s")
_HEADER = struct.Struct(">IIBBBBB")


def rasterise(segmentation: Any, height: int, width: int) -> NDArray[np.bool_]:
    """Return the pixels of one object.

    Polygons follow the rule of COCO's own API: corners are rounded to a grid of fifths of a pixel, edges are
    traced on it, and a pixel belongs to the object when its column's centre line is inside, with the ends of
    that line rounded up. The parts of an object are joined.

    Args:
        segmentation: A list of polygons [x, y, x, y, ...], or {"counts": ..., "size": [height, width]} with
            run lengths down the columns, as numbers or as COCO's text.
        height: Of the image.
        width: Of the image.

    Returns:
        bool [height, width].

    Raises:
        ValueError: It is none of these, or of another size; the text is a short reason.
    """
    if not 0 < height * width <= _MAX_PIXELS:
        raise ValueError(f"an image of {height}x{width} has no masks")
    if isinstance(segmentation, dict):
        return _from_runs(segmentation, height, width)
    if not isinstance(segmentation, list) or not segmentation:
        raise ValueError("a segmentation must be polygons or run lengths")
    mask = np.zeros((height, width), np.bool_)
    for polygon in segmentation:
        mask |= _from_polygon(polygon, height, width)
    return mask


def write_png(mask: NDArray[np.bool_]) -> bytes:
    """Write a mask as a PNG file of one channel and one bit, 0 and 1."""
    height, width = mask.shape
    rows = np.packbits(mask, axis=1)
    lines = np.zeros((height, rows.shape[1] + 1), np.uint8)  # a filter of none before each row
    lines[:, 1:] = rows
    pieces = (
        (b"IHDR", _HEADER.pack(width, height, 1, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 1)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _CHUNK.pack(len(data), kind) + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in pieces
    )


def _from_polygon(polygon: Any, height: int, width: int) -> NDArray[np.bool_]:
    try:
        corners = np.asarray(polygon, np.float64)
    except (TypeError, ValueError):
        raise ValueError("a polygon must be a list of numbers") from None
    if corners.ndim != 1 or corners.size < 6 or corners.size % 2 or not np.isfinite(corners).all():
        raise ValueError("a polygon must be x and y of three corners or more")
    if np.abs(corners).max() > 1e6:
        raise ValueError("a polygon's corner lies a million pixels away")
    grid = (corners.reshape(-1, 2) * _STEPS + 0.5).astype(np.int64)  # towards zero
    columns, rows = _trace(grid)
    # Where the outline steps from one fine column to the next, and a pixel's centre line lies between.
    steps = np.flatnonzero(columns[1:] != columns[:-1])
    left = np.minimum(columns[steps], columns[steps + 1])
    upper = np.minimum(rows[steps], rows[steps + 1])
    on_centre = (left - _STEPS // 2) % _STEPS == 0
    column = (left - _STEPS // 2) // _STEPS
    there = on_centre & (column >= 0) & (column < width)
    row = np.ceil(np.clip((upper[there] + 0.5) / _STEPS - 0.5, 0, height)).astype(np.int64)
    mask = np.zeros((height, width), np.bool_)
    if not row.size:
        return mask
    # Down these columns, one behind the other, every such place turns inside into outside.
    first, last = int(column[there].min()), int(column[there].max()) + 1
    turns = np.sort((column[there] - first) * height + row)
    runs = np.diff(turns, prepend=0, append=(last - first) * height)
    inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    mask[:, first:last] = inside.reshape(-1, height).T
    return mask


def _trace(grid: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points of an outline, from corner to corner, in steps of one along the longer side."""
    ends = np.roll(grid, -1, 0)
    lengths = np.abs(ends - grid)
    along_x = lengths[:, 0] >= lengths[:, 1]
    axis = np.where(along_x, 0, 1)[:, None]
    backwards = np.take_along_axis(grid > ends, axis, 1)
    # From here on each edge runs upwards, and its points come in the other order where it did not.
    start, end = np.where(backwards, ends, grid), np.where(backwards, grid, ends)
    counts = np.take_along_axis(lengths, axis, 1)[:, 0] + 1
    slope = np.take_along_axis(end - start, 1 - axis, 1)[:, 0] / np.maximum(counts - 1, 1)
    edge = np.repeat(np.arange(len(grid)), counts)
    step = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts)
    step = np.where(backwards[edge, 0], counts[edge] - 1 - step, step)
    along = np.take_along_axis(start, axis, 1)[edge, 0] + step
    across = np.take_along_axis(start, 1 - axis, 1)[edge, 0] + slope[edge] * step + 0.5
    across = across.astype(np.int64)  # towards zero
    wide = along_x[edge]
    return np.where(wide, along, across), np.where(wide, across, along)


def _from_runs(segmentation: dict[str, Any], height: int, width: int) -> NDArray[np.bool_]:
    size, counts = segmentation.get("size"), segmentation.get("counts")
    if size != [height, width]:
        raise ValueError(f"its run lengths are of the size {size}, the image of {[height, width]}")
    runs = _unpack(counts) if isinstance(counts, str) else counts
    try:
        lengths = np.asarray(runs, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("run lengths must be whole numbers") from None
    if lengths.ndim != 1 or (lengths < 0).any() or (lengths > height * width).any():
        raise ValueError("run lengths must be whole numbers >= 0 within the image")
    if lengths.sum() != height * width:
        raise ValueError(
            f"its run lengths sum up to {lengths.sum()}, not to {height * width} pixels"
        )
    inside = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    return inside.reshape(width, height).T


def _unpack(text: str) -> Sequence[int]:
    """Return the run lengths in COCO's text: five bits a letter, from the third on as differences."""
    runs: list[int] = []
    number = shift = 0
    for letter in text.encode("ascii", "replace"):
        bits = letter - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("the text of its run lengths is damaged")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        runs.append(number + runs[-2] if len(runs) > 2 else number)
        number = shift = 0
    if shift:
        raise ValueError("the text of its run lengths ends within a number")
    return runs
