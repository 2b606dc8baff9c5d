"""Which frames a clip is made of: places in the order of presentation, from a start and a step."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Padding = Literal["repeat", "loop", "edge"]


def frames_by_stride(
    num_available: int, num_frames: int, stride: float, share: float, padding: Padding
) -> NDArray[np.int64]:
    """Take every `stride`-th frame.

    Args:
        num_available: Frames to choose from, at least 1.
        num_frames: Frames of the clip.
        stride: Places from one frame to the next, > 0; places between frames are rounded down.
        share: Where it begins, 0 <= share <= 1 of the places at which all of it fits.
        padding: What a video does that is too short; see Clips.

    Returns:
        int64 [num_frames], 0 <= place < num_available.
    """
    last = (num_frames - 1) * stride
    room = num_available - 1 - int(last)  # the places at which it may begin, less one
    if room < 0:
        return _pad(num_available, np.floor(np.arange(num_frames) * stride), padding)
    start = min(int(share * (room + 1)), room)
    return start + np.floor(np.arange(num_frames) * stride).astype(np.int64)


def frames_by_time(
    seconds: NDArray[np.float64],
    duration_seconds: float,
    num_frames: int,
    step_seconds: float,
    share: float,
    padding: Padding,
) -> NDArray[np.int64]:
    """Take the frame that is shown at each of several moments.

    Args:
        seconds: float64 [n], when each frame begins to be shown, ascending, from 0 on.
        duration_seconds: When the last one ends.
        num_frames: Frames of the clip.
        step_seconds: Between two moments, > 0.
        share: Where it begins, 0 <= share <= 1 of the time at which all of it fits.
        padding: What a video does that is too short; see Clips.

    Returns:
        int64 [num_frames], 0 <= place < n.
    """
    moments = np.arange(num_frames) * step_seconds
    room = max(duration_seconds, float(seconds[-1])) - float(moments[-1])
    if room < 0:
        if padding == "repeat":
            return _pad(len(seconds), moments, padding)
        if padding == "loop":
            moments = moments % duration_seconds
    else:
        moments = moments + share * room
    # A moment that rounding put a hair before a frame still means that frame.
    places = np.searchsorted(seconds, moments + 1e-9, side="right") - 1
    return np.clip(places, 0, len(seconds) - 1).astype(np.int64)


def _pad(num_available: int, places: NDArray[np.float64], padding: Padding) -> NDArray[np.int64]:
    if padding == "edge":
        return np.minimum(places, num_available - 1).astype(np.int64)
    if padding == "loop":
        return (places % num_available).astype(np.int64)
    # Each frame comes equally often, give or take one, in order.
    return np.arange(len(places)) * num_available // len(places)
