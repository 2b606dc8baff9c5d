"""Render the canvases of many JPEGs in one call of compiled code; other decoders take files that it does not support.

The files of a step are looked up once, together; then threads render the rows in parts.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.jpeg.seek_points import (
    EVERY,
    SEEK_POINT,
    SeekPoints,
    digests_of,
)
from dali_pipes.jpeg.status import GOOD, NOT_JPEG, OF_SCANS
from dali_pipes.machine.compile_ahead import compile_progressive
from dali_pipes.stages.canvas_memory import Canvases
from dali_pipes.stages.data import Fetched, needed_part
from gpu_aug.resampling.crops import Crops
from readers import HeaderError, read_header

_FAST_MARGIN = 2.0
"""With decode="fast", the resize still shrinks by at least this factor; see DECISIONS.md, "Scaled decoding"."""
_LEAST_SIDE, _USUAL_SIDE = 8, 16  # side of an MCU in pixels, without and with chroma subsampling
_INTERVAL_MCUS = 8  # files whose restart intervals are at most this long need no seek points: decoding can begin at each interval
_NO_OFFSETS = np.empty(0, np.int64)
_OF_SCANS = list(OF_SCANS)

_PER_THREAD = threading.local()
"""Scratch memory of each thread. New memory would be zeroed by the operating system on every step."""


class JpegRenderer:
    """Renders the canvases of the sound JPEGs of a step; each thread renders some of the rows.

    Whether a file is sound depends on the whole file, not only on the needed part, so a new file is read completely.

    Args:
        fetched: The step.
        fast: Whether images that are shrunk may be decoded at a smaller size.
        store: Has the seek points of files that were read before, and receives those of new files; with None every file is new.
    """

    def __init__(
        self, fetched: Fetched, *, fast: bool = False, store: SeekPointStore | None = None
    ) -> None:
        self._fetched, self._store = fetched, store
        self._crops = np.stack([crops_of(drawn.crops) for drawn in fetched.draws])
        self._antialias = np.array([drawn.crops.antialias for drawn in fetched.draws])
        self._shrink = np.ones(len(fetched), np.int64)
        if fast and self._antialias.all():
            self._shrink = _choose_shrink(self._crops)
            _unshrink_turned(fetched, self._shrink)
        self._parts = parts_of(fetched, self._shrink)
        self._scratch = _scratch_bytes(fetched.sizes, self._parts, self._crops)
        self._look_up()

    def render(self, start: int, stop: int, canvases: Canvases) -> NDArray[np.int32]:
        """Render the canvases of rows `start` to `stop` (half open).

        Args:
            start: The first row.
            stop: The row after the last one.
            canvases: The canvases of these rows; written.

        Returns:
            int32 [stop - start], a status of `dali_pipes.jpeg.status` for each row; its canvases are rendered if it is GOOD.
        """
        statuses = self._statuses[start:stop].copy()
        rows = np.flatnonzero(statuses == GOOD)
        statuses[rows] = self._render(
            start + rows, canvases.addresses(rows, start, self._fetched.draws)
        )
        return statuses

    def _look_up(self) -> None:
        """Look up the files' seek points, and describe the files for compiled code."""
        from dali_pipes.decode.jpeg_batch_kernel import ENCODED

        fetched, store, known = self._fetched, self._store, None
        self._statuses = np.where(fetched.has_sample, GOOD, NOT_JPEG).astype(np.int32)
        is_known = np.zeros(len(fetched), bool)
        if store is not None:
            self._digests = digests_of(fetched.spans)
            known, self._held = store.look_up(fetched.indices, self._digests)
            # A stored status that comes from the header alone is ignored: another of our decoders may support the file.
            is_known = fetched.has_sample & np.isin(known["status"], _OF_SCANS)
            self._statuses[is_known] = known["status"][is_known]
            known[~is_known | (known["num_rows"] == 0)] = 0
        self._files, self._offsets = list_files(ENCODED, fetched.spans, fetched.restarts, known)
        self._files["judge"] = ~is_known

    def _render(self, rows: NDArray[np.int64], canvases: NDArray[np.int64]) -> NDArray[np.int32]:
        """Render the canvases of sound files; return all statuses, int32 [n]."""
        statuses = np.empty(len(rows), np.int32)
        if not len(rows):
            return statuses
        from dali_pipes.decode import jpeg_batch_kernel  # compiles unless cached
        from gpu_aug.compiled.units import calling_units

        files, shrink = self._files[rows], self._shrink[rows]
        is_new = self._store is not None and bool(files["judge"].any())
        room = self._allot_seek_points(rows, files) if is_new else None
        # OpenCV decodes to the same pixels, but not at a smaller size.
        with calling_units(compile_progressive if (shrink == 1).all() else None):
            jpeg_batch_kernel.render_rows(
                files,
                self._fetched.sizes[rows],
                self._parts[rows],
                shrink,
                self._offsets,
                np.ascontiguousarray(self._crops[:, rows]),  # one type for compiled code
                canvases,
                self._antialias,
                _thread_memory(self._scratch),
                statuses,
            )
        if room is not None:
            self._store_found(rows, files, room, statuses)
        return statuses

    def _allot_seek_points(
        self, rows: NDArray[np.int64], files: NDArray[np.void]
    ) -> NDArray[np.void]:
        """Allocate seek points for new files: SEEK_POINT [...], one file after the other."""
        # None for files whose restart intervals are short enough.
        most, usual = (
            (-(-self._fetched.sizes[rows] // side)).prod(axis=1) // every
            for side, every in ((_LEAST_SIDE, EVERY), (_USUAL_SIDE, _INTERVAL_MCUS))
        )
        is_wanted = (files["judge"] == 1) & (files["last_offset"] - files["first_offset"] <= usual)
        most = np.where(is_wanted, most, 0)
        room = np.empty(int(most.sum()), SEEK_POINT)
        wanted, starts = most > 0, np.cumsum(most) - most
        address = room.__array_interface__["data"][0]  # takes half the time of `ctypes`
        files["seek_points"][wanted] = address + SEEK_POINT.itemsize * starts[wanted]
        files["num_seek_points"][wanted], files["every"][wanted] = most[wanted], EVERY
        return room

    def _store_found(
        self,
        rows: NDArray[np.int64],
        files: NDArray[np.void],
        room: NDArray[np.void],
        statuses: NDArray[np.int32],
    ) -> None:
        """Store the statuses and seek points of new files, except statuses that come from the header alone."""
        assert self._store is not None
        kept = (files["judge"] == 1) & (files["noted"] >= 0) & np.isin(statuses, _OF_SCANS)
        first = (files["seek_points"] - room.__array_interface__["data"][0]) // SEEK_POINT.itemsize
        news = []
        for number in np.flatnonzero(kept).tolist():
            row, status, noted = (
                int(rows[number]),
                int(statuses[number]),
                int(files["noted"][number]),
            )
            start = int(first[number]) if noted else 0
            found = room[start : start + noted] if status == GOOD else room[:0]
            index = int(self._fetched.indices[row])
            news.append((index, int(self._digests[row]), SeekPoints(status, EVERY, found)))
        self._store.store_all(news)


def list_files(
    dtype: np.dtype[np.void],
    spans: NDArray[np.int64],
    restarts: Sequence[NDArray[np.int64] | None] | None,
    known: NDArray[np.void] | None,
) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """Return records of encoded images, with their seek points and restart intervals.

    Args:
        dtype: ENCODED, or a dtype with at least its fields; additional fields are zero.
        spans: int64 [n, 2], address and length in bytes of each file.
        restarts: See `Fetched.restarts`.
        known: KNOWN [n], the statuses and seek points of the files; None if they are not known.

    Returns:
        The records; and int64 [...], the offsets in their files at which restart intervals begin.
    """
    files = np.zeros(len(spans), dtype)
    files["address"], files["num_bytes"] = spans.T
    if known is not None:
        files["seek_points"], files["num_seek_points"] = known["address"], known["num_rows"]
        files["every"] = known["every"]
    if not restarts:
        return files, _NO_OFFSETS
    # The last offset is the scan's end.
    starts = [_NO_OFFSETS if one is None else one[:-1] for one in restarts]
    bounds = np.cumsum([0, *map(len, starts)])
    files["first_offset"], files["last_offset"] = bounds[:-1], bounds[1:]
    return files, np.concatenate(starts)


def parts_of(fetched: Fetched, shrink: NDArray[np.int64] | int = 1) -> NDArray[np.void]:
    """Return the part of each image that its views need, enlarged to full pixels of the shrunk image: RECT [n]."""
    from dali_pipes.decode.jpeg_batch_kernel import RECT

    first, shape = needed_part(fetched.draws)
    last = first + shape
    if np.any(shrink != 1):
        step = np.asarray(shrink)[:, None]
        first = first // step * step
        last = np.minimum(-(-last // step) * step, fetched.sizes)
    return _records(RECT, first, last - first)


def crops_of(crops: Crops) -> NDArray[np.void]:
    """Return crops as records for compiled code, CROP [n]."""
    from dali_pipes.decode.jpeg_batch_kernel import CROP

    return _records(CROP, crops.start, crops.shape, crops.resize, crops.paste)


def _records(dtype: np.dtype[np.void], *pairs: NDArray[Any]) -> NDArray[np.void]:
    """Return records whose fields are the concatenated columns of integer arrays."""
    return np.concatenate(pairs, axis=1, dtype=np.int64).view(dtype)[:, 0]


def _choose_shrink(crops: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the largest factor by which each image may be shrunk during decoding: int64 [n], 1, 2, 4 or 8."""
    by_height = crops["height"] / crops["resize_height"]
    by_width = crops["width"] / crops["resize_width"]
    shrinking = np.minimum(by_height, by_width).min(axis=0) / _FAST_MARGIN
    exponents: NDArray[np.float64] = np.clip(np.floor(np.log2(shrinking)), 0, 3)
    return np.exp2(exponents).astype(np.int64)


def _unshrink_turned(fetched: Fetched, shrink: NDArray[np.int64]) -> None:
    """Set an image's factor to 1 if pixels of the shrunk stored image would not align with those of the upright image.

    Shrunk pixels are counted from the top left of the stored image, which EXIF orientation may turn to another corner.
    """
    has_full_pixels = ~(fetched.sizes % shrink[:, None]).any(axis=1)
    for row in np.flatnonzero((shrink > 1) & ~has_full_pixels & fetched.has_sample).tolist():
        try:
            is_turned = read_header(fetched.data[row] or b"").orientation != 1
        except HeaderError:  # the file was damaged after it was indexed; another decoder reports it
            is_turned = True
        if is_turned:
            shrink[row] = 1


def _scratch_bytes(
    sizes: NDArray[np.int64], parts: NDArray[np.void], crops: NDArray[np.void]
) -> tuple[int, ...]:
    """Return three sizes in bytes: scratch for decoding, the largest part, and scratch for resizing."""
    from dali_pipes.jpeg.progressive.memory import scratch_bytes as decoding_bytes
    from gpu_aug.resampling.bilinear import scratch_bytes as resizing_bytes

    if not len(sizes):
        return 0, 0, 0
    sides = ("height", "width", "resize_height", "resize_width")
    return (
        decoding_bytes(int(sizes.max())),
        int((parts["height"] * parts["width"]).max()) * 3,
        resizing_bytes(*(int(crops[side].max()) for side in sides)),
    )


def _thread_memory(needed: tuple[int, ...]) -> tuple[NDArray[np.uint8], ...]:
    """Return three arrays of the calling thread with at least the given sizes."""
    # Not `thread_scratch`: it is sized for the widest possible image, which makes a thread's first step 4 ms slower.
    old: Any = getattr(_PER_THREAD, "memory", (np.empty(0, np.uint8),) * 3)
    _PER_THREAD.memory = tuple(
        have if have.size >= size else np.zeros(size, np.uint8)
        for have, size in zip(old, needed, strict=True)
    )
    memory: tuple[NDArray[np.uint8], ...] = _PER_THREAD.memory
    return memory
