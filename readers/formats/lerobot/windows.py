"""delta_timestamps: which frames around a frame belong to a sample, in frames."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from readers.sample import SourceError

DeltaTimestamps = Mapping[str, Sequence[float]]
"""By the name of a feature, seconds from the frame at hand."""


def frame_offsets(
    deltas: DeltaTimestamps, fps: float, tolerance_s: float, known: Sequence[str]
) -> dict[str, NDArray[np.int64]]:
    """Turn seconds into frames.

    Args:
        deltas: Seconds by feature; each a multiple of 1 / fps.
        fps: Frames per second.
        tolerance_s: By how many seconds they may be off.
        known: Features that may have some.

    Returns:
        int64 [T] by feature.

    Raises:
        SourceError: A feature is unknown or has no seconds, or they are no multiples.
    """
    if not isinstance(deltas, Mapping):
        raise SourceError(
            f"delta_timestamps must name seconds by feature, got {type(deltas).__name__}: "
            'write {"action": [0.0, 0.1]}'
        )
    if not 0 <= tolerance_s < math.inf:
        raise SourceError(f"tolerance_s must be seconds from 0 on, got {tolerance_s!r}")
    return {name: _offsets(name, deltas[name], fps, tolerance_s, known) for name in deltas}


def _offsets(
    name: str, seconds: Sequence[float], fps: float, tolerance_s: float, known: Sequence[str]
) -> NDArray[np.int64]:
    if name not in known:
        raise SourceError(
            f"delta_timestamps names {name!r}, which is no feature that is read: give some of "
            f"{', '.join(known)}"
        )
    try:
        given = np.asarray(seconds, np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all():
        raise SourceError(f"delta_timestamps of {name!r} must be a list of at least one second")
    offsets = np.rint(given * fps)
    off = np.abs(given * fps - offsets) / fps
    if off.max() > tolerance_s:
        wrong = float(given[int(np.argmax(off))])
        raise SourceError(
            f"delta_timestamps of {name!r} has {wrong:g} s, which is no multiple of 1/{fps:g} s within "
            f"tolerance_s={tolerance_s:g}: give multiples of the time between frames"
        )
    return offsets.astype(np.int64)


def clamped(
    row: int, start: int, stop: int, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows around a row, and which of them are stand-ins for rows outside the episode.

    Args:
        row: start <= row < stop.
        start: First row of the episode.
        stop: The row behind its last one.
        offsets: int64 [T], from the row.
    """
    rows = row + offsets
    return np.clip(rows, start, stop - 1), (rows < start) | (rows >= stop)
