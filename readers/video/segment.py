"""The frames of a video that lie within some of its seconds."""

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.video.containers.open import VideoError
from readers.video.info import VideoInfo


class Segment(NamedTuple):
    """Neighbouring frames of a video.

    Attributes:
        first: Number of the first of them in the order of presentation.
        pts: int64 [n], when each begins to be shown, at least one.
        stop: When the last one ends, in the units of `pts`.
        time_base: Seconds per unit.
    """

    first: int
    pts: NDArray[np.int64]
    stop: int
    time_base: Fraction


def cut(info: VideoInfo, seconds: tuple[float, float] | None) -> Segment:
    """Return the frames that begin to be shown within some seconds, or all.

    Where none does, it is the one that is shown at their start.

    Args:
        info: The video.
        seconds: From and to (half open), counted from the first frame on; None is the whole video. Taken
            as fractions with denominators up to a million: 0.1 is a tenth.

    Raises:
        VideoError: The video ends before they begin.
    """
    pts, base = info.pts, info.time_base
    end = int(pts[-1]) + max(info.last_duration, 1)
    if seconds is None:
        return Segment(0, pts, end, base)
    start, stop = (Fraction(time).limit_denominator(1_000_000) / base for time in seconds)
    if start >= end - int(pts[0]):
        raise VideoError(
            f"its clip begins at {seconds[0]:g} s, but the video lasts {info.duration_seconds:g} s"
        )
    shown = pts - pts[0]
    first, last = np.searchsorted(shown, [ceil(start), ceil(stop)]).tolist()
    if first == last:
        first = int(np.searchsorted(shown, floor(start), side="right")) - 1
        last = first + 1
    until = max(min(int(pts[0]) + ceil(stop), end), int(pts[last - 1]) + 1)
    return Segment(first, pts[first:last], until, base)
