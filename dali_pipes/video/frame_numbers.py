"""Which frames a clip is made of: frame numbers in the order of presentation, from a start and a step.

Everything is counted in whole numbers, so no machine rounds to another frame.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.ops.temporal import SPEED_UNIT

Padding = Literal["edge", "loop", "repeat"]

Start = Callable[[int], int]
"""The room (the last frame at which all of a clip fits; below 0 where it fits nowhere) -> where it begins."""


def random_start(word: int) -> Start:
    """Begin at any frame at which the clip fits, all equally likely.

    Args:
        word: Drawn, 0 <= word < 2**32.
    """
    return lambda room: max(room + 1, 0) * word >> 32


def uniform_start(number: int, count: int) -> Start:
    """Spread `count` clips evenly, the first at the first possible frame and the last at the last; one in the middle.

    Args:
        number: Which of them, 0 <= number < count.
        count: At least 1.
    """
    if count == 1:
        return lambda room: max(room, 0) // 2
    return lambda room: max(room, 0) * number // (count - 1)


def fixed_start(number: int) -> Start:
    """Begin there, whether the clip fits or not."""
    return lambda room: number  # noqa: ARG005 - a Start


def frames_by_stride(
    num_available: int,
    num_frames: int,
    stride: int,
    start: Start,
    padding: Padding,
    *,
    speed: int = SPEED_UNIT,
) -> NDArray[np.int64]:
    """Take every `stride`-th frame.

    Args:
        num_available: Frames to choose from, at least 1.
        num_frames: Frames of the clip.
        stride: Places from one frame to the next, at least 1.
        start: Where it begins, in frames.
        padding: The handling of clips that reach beyond the last frame; see Clips.
        speed: Factor on `stride`, in units of 1 / SPEED_UNIT; numbers are rounded down.

    Returns:
        int64 [num_frames], 0 <= number < num_available.
    """
    numbers = unpadded_numbers(num_available, num_frames, stride, start, speed)
    if padding == "repeat" and numbers[-1] >= num_available:
        return _repeat(int(numbers[0]), num_available, num_frames)
    return numbers % num_available if padding == "loop" else np.minimum(numbers, num_available - 1)


def unpadded_numbers(
    num_available: int, num_frames: int, stride: int, start: Start, speed: int
) -> NDArray[np.int64]:
    """Return where every `stride`-th frame would be, int64 [num_frames], also beyond the last one."""
    offsets = np.arange(num_frames) * (stride * speed) // SPEED_UNIT
    return start(num_available - 1 - int(offsets[-1])) + offsets


def frames_by_time(
    pts: NDArray[np.int64],
    stop: int,
    time_base: Fraction,
    num_frames: int,
    fps: Fraction,
    start: Start,
    padding: Padding,
    *,
    speed: int = SPEED_UNIT,
) -> NDArray[np.int64]:
    """Take the frame that is shown at each of several moments.

    Args:
        pts: int64 [n], when each frame begins to be shown, ascending, at least one.
        stop: When the last one ends, after it began; all in units of `time_base`.
        time_base: Time base, in seconds.
        num_frames: Frames of the clip.
        fps: Moments per second.
        start: Where it begins, in `ticks` after `pts[0]`.
        padding: The handling of clips that reach to `stop` or beyond; see Clips.
        speed: Factor on the time between frames, in units of 1 / SPEED_UNIT.

    Returns:
        int64 [num_frames], 0 <= number < n.
    """
    unit, _ = ticks(time_base, fps)
    duration = (stop - int(pts[0])) * unit
    moments = unpadded_moments(duration, time_base, num_frames, fps, start, speed)
    if padding == "loop":
        moments = [moment % duration for moment in moments]
    elapsed = [min(moment, duration - 1) // unit for moment in moments]
    numbers = np.searchsorted(pts - pts[0], elapsed, side="right") - 1
    if padding == "repeat" and moments[-1] >= duration:
        return _repeat(int(numbers[0]), len(pts), num_frames)
    return numbers.astype(np.int64)


def unpadded_moments(
    duration: int, time_base: Fraction, num_frames: int, fps: Fraction, start: Start, speed: int
) -> list[int]:
    """Return the moments of a clip, in `ticks`, also beyond the end; they may be too large for int64."""
    step = ticks(time_base, fps)[1] * speed // SPEED_UNIT
    begin = start(duration - 1 - (num_frames - 1) * step)
    return [begin + number * step for number in range(num_frames)]


def ticks(time_base: Fraction, fps: Fraction) -> tuple[int, int]:
    """Return how many ticks a unit of `time_base` and the time from moment to moment last.

    A tick is 1 / (SPEED_UNIT * time_base.denominator * fps.numerator) seconds.
    """
    unit = time_base.numerator * fps.numerator * SPEED_UNIT
    return unit, time_base.denominator * fps.denominator * SPEED_UNIT


def _repeat(first: int, num_available: int, num_frames: int) -> NDArray[np.int64]:
    """Show each frame from `first` on equally often, give or take one, in order."""
    return first + np.arange(num_frames) * (num_available - first) // num_frames
