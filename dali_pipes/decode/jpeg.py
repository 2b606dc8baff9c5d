"""Drawing the canvases of many rows in one call of compiled code; what it declines is for others to draw."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.pipeline.augment import Sheets
from dali_pipes.pipeline.fetch import Work, needed_part
from gpu_aug.resampling.crops import Windows
from readers import read_header

# What "fast" leaves for the resampling to shrink: measured in DECISIONS.md.
_FAST_MARGIN = 2.0

_NO_OFFSETS = np.empty(0, np.int64)

# Memory of each thread: new memory would be cleared by the system each time.
_KEPT = threading.local()


def draw_rows(
    work: Work, sheets: Sheets, start: int, stop: int, *, fast: bool
) -> NDArray[np.bool_]:
    """Draw the canvases of the sound baseline JPEGs at some places of sheets.

    Args:
        work: The batch to which the rows belong.
        sheets: The canvases.
        start: The first place.
        stop: The one after the last.
        fast: Whether images that are shrunk may be decoded at a smaller size.

    Returns:
        bool [stop - start]: whether the canvases at each place are drawn.
    """
    places = [place for place in range(start, stop) if work.data[sheets.rows[place]] is not None]
    drawn = np.zeros(stop - start, bool)
    if not places:
        return drawn
    from dali_pipes.decode import jpeg_rows  # compiles, where that was not done before

    rows = np.array([sheets.rows[place] for place in places])
    windows = np.stack([_fields(draws.windows, rows) for draws in work.draws])
    antialias = np.array([draws.windows.antialias for draws in work.draws])
    shrink = np.ones(len(rows), np.int64)
    if fast and antialias.all():
        shrink = _shrink(windows)
        _leave_turned(work, rows, shrink)
    parts = _parts(work, rows, shrink)
    encoded, offsets, held = _encoded(work, rows)
    canvases = [
        [_describe(sheets.canvas(place, view)) for place in places]
        for view in range(len(work.draws))
    ]
    statuses = np.empty(len(rows), np.int32)
    jpeg_rows.draw_rows(
        encoded,
        work.sizes[rows],
        parts,
        shrink,
        offsets,
        windows,
        np.array(canvases, np.int64),
        antialias,
        _memory(work.sizes[rows], parts, windows),
        statuses,
    )
    del held  # the addresses in `encoded` were good until here
    drawn[np.array(places) - start] = statuses == 0
    return drawn


def _encoded(
    work: Work, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[NDArray[np.uint8]]]:
    """Where the rows' bytes lie and, as far as it is known, their restart intervals; see rows.draw_rows.

    Returns:
        int64 [n, 4]; int64 [...], the offsets of restart intervals; and what keeps the bytes in memory.
    """
    held = [np.frombuffer(work.data[row] or b"", np.uint8) for row in rows.tolist()]
    known = [work.restarts[row] for row in rows.tolist()]
    offsets = [_NO_OFFSETS if found is None else found[:-1] for found in known]
    bounds = np.cumsum([0, *(found.size for found in offsets)])
    encoded = np.empty((len(held), 4), np.int64)
    encoded[:, :2] = [(view.__array_interface__["data"][0], view.size) for view in held]
    encoded[:, 2], encoded[:, 3] = bounds[:-1], bounds[1:]
    return encoded, np.concatenate([_NO_OFFSETS, *offsets]), held


def _parts(work: Work, rows: NDArray[np.int64], shrink: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of each image that all views need, grown to whole pixels of the shrunk image.

    Returns:
        int64 [n, 4]: top, left, height, width.
    """
    start, shape = (pair[rows].astype(np.int64) for pair in needed_part(work.draws))
    step = shrink[:, None]
    first = start // step * step
    last = np.minimum(-(-(start + shape) // step) * step, work.sizes[rows])
    return np.concatenate([first, last - first], axis=1)


def _fields(windows: Windows, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    names = ("start", "shape", "resize", "paste")
    return np.concatenate([getattr(windows, name)[rows] for name in names], axis=1).astype(np.int64)


def _shrink(windows: NDArray[np.int64]) -> NDArray[np.int64]:
    """By how much each image may be shrunk while it is decoded: int64 [n], 1, 2, 4 or 8."""
    shrinking = (windows[..., 2:4] / windows[..., 4:6]).min(axis=(0, 2)) / _FAST_MARGIN
    exponents: NDArray[np.float64] = np.clip(np.floor(np.log2(shrinking)), 0, 3)
    return np.exp2(exponents).astype(np.int64)


def _leave_turned(work: Work, rows: NDArray[np.int64], shrink: NDArray[np.int64]) -> None:
    """Do not shrink images whose pixels, shrunk as they are stored, would lie between those wanted.

    Shrunk pixels are counted from the stored image's top left, which EXIF may turn to another corner.
    """
    for place in np.flatnonzero(shrink > 1).tolist():
        row = int(rows[place])
        whole = not (work.sizes[row] % shrink[place]).any()
        data = work.data[row]
        if not whole and data is not None and read_header(data).orientation != 1:
            shrink[place] = 1


def _describe(canvas: Any) -> tuple[int, int, int]:
    return canvas.data_ptr(), canvas.shape[0], canvas.shape[1]


def _memory(
    sizes: NDArray[np.int64], parts: NDArray[np.int64], windows: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], ...]:
    """Scratch for decoding any of the images, room for any of the parts, and scratch for resizing."""
    from dali_pipes.jpeg.memory import scratch_bytes as decoding_bytes
    from gpu_aug.resampling.bilinear import scratch_bytes as resizing_bytes

    largest = windows.reshape(-1, windows.shape[2]).max(axis=0).tolist()
    needed = (
        decoding_bytes(int(sizes.max())),
        int(parts[:, 2:].prod(axis=1).max()) * 3,
        resizing_bytes(*largest[2:6]),
    )
    kept: Any = getattr(_KEPT, "memory", (np.empty(0, np.uint8),) * 3)
    _KEPT.memory = tuple(
        have if have.size >= size else np.empty(size, np.uint8)
        for have, size in zip(kept, needed, strict=True)
    )
    memory: tuple[NDArray[np.uint8], ...] = _KEPT.memory
    return memory
