"""Choose the frames of a clip: its start, the step from frame to frame, and the handling of the end of the video.

Positions are integers in the unit of the rate (frames with stride=, ticks of a common clock with fps=), so rounding
cannot change a frame on any machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dali_pipes.arguments.values import require_positive
from dali_pipes.errors import LoaderError
from gpu_aug.ops.temporal import SPEED_UNIT
from readers.video.info import Segment

Padding = Literal["edge", "loop", "repeat"]
Sampling = Literal["random", "uniform", "all", "first"]

# 29.97 and 30000 / 1001 are different fractions with smaller denominators, so both are exact.
_LARGEST_DENOMINATOR = 100_000

_LARGEST_FPS = 1_000_000  # a larger value is certainly a mistake, such as a time stamp


def clip_start(
    sampling: Literal["random", "uniform"], room: int, number: int, count: int, word: int
) -> int:
    """Return the start position of a clip in its video; 0 if the video is shorter than the clip.

    Args:
        sampling: "random" takes any position at which the clip fits, with equal probability; "uniform" spreads `count`
            clips evenly from the first to the last position, and puts a single clip in the middle.
        room: The last position at which the clip fits; negative if the clip is too long.
        number: Index of the clip among the clips of its video.
        count: Count of clips of the video.
        word: A random integer, 0 <= word < 2**32.
    """
    if sampling == "random":
        return max(room + 1, 0) * word >> 32
    if count == 1:
        return max(room, 0) // 2
    return max(room, 0) * number // (count - 1)


@dataclass(frozen=True)
class ByStride:
    """A rate that takes every Nth frame; positions are indices of frames."""

    stride: int

    def __str__(self) -> str:
        return f"stride={self.stride}"

    @property
    def identity(self) -> str:
        """A text that is part of fingerprints; it must not change when the class is renamed."""
        return f"ByStride(stride={self.stride})"

    def length(self, segment: Segment) -> int:
        """Return the length of a segment, in the unit of its steps: frames or units of time."""
        return len(segment.pts)

    def step(self, segment: Segment) -> int:  # noqa: ARG002 - the same in all videos
        """Return the distance between two frames of a clip at normal speed."""
        return self.stride

    def frames_at(
        self,
        segment: Segment,  # noqa: ARG002 - as for `step`
        positions: Sequence[int],
    ) -> NDArray[np.int64]:
        """Return the frames of a segment that are shown at positions within it, int64 [n]."""
        return np.array(positions, np.int64)


@dataclass(frozen=True)
class ByTime:
    """A rate in frames per second.

    Positions are ticks of 1 / (SPEED_UNIT * time_base.denominator * fps.numerator) seconds. Both the video's time base
    and the time between two frames of a clip are integers in ticks, at every speed. Ticks can exceed int64, so they are
    Python integers.
    """

    fps: Fraction

    def __str__(self) -> str:
        return f"fps={self.fps}"

    @property
    def identity(self) -> str:
        """A text that is part of fingerprints; it must not change when the class is renamed."""
        return f"ByTime(fps=Fraction({self.fps.numerator}, {self.fps.denominator}))"

    def unit(self, segment: Segment) -> int:
        """Return how many ticks one unit of the video's time base has."""
        return segment.time_base.numerator * self.fps.numerator * SPEED_UNIT

    def length(self, segment: Segment) -> int:
        """Return the length of a segment, in the unit of its steps: frames or units of time."""
        return (segment.stop - int(segment.pts[0])) * self.unit(segment)

    def step(self, segment: Segment) -> int:
        """Return the distance between two frames of a clip at normal speed."""
        return segment.time_base.denominator * self.fps.denominator * SPEED_UNIT

    def frames_at(self, segment: Segment, positions: Sequence[int]) -> NDArray[np.int64]:
        """Return the frames of a segment that are shown at positions within it, int64 [n]."""
        unit = self.unit(segment)
        elapsed = [position // unit for position in positions]
        shown = segment.pts - segment.pts[0]
        return (np.searchsorted(shown, elapsed, side="right") - 1).astype(np.int64)


Rate = ByStride | ByTime


def read_rate(stride: int | None, fps: float | Fraction | None) -> Rate:
    """Return the rate for the argument that was given, stride or fps.

    Raises:
        LoaderError: Neither or both arguments are given, or the value is out of range.
    """
    if (stride is None) == (fps is None):
        raise LoaderError(
            f"stride={stride} and fps={fps}: give one of them, such as stride=4 (every fourth frame) or "
            "fps=7.5 (frames per second)"
        )
    if stride is not None:
        require_positive(stride=stride)
        return ByStride(int(stride))
    rate = Fraction()
    if isinstance(fps, int | float | Fraction) and not isinstance(fps, bool) and math.isfinite(fps):
        rate = Fraction(fps).limit_denominator(_LARGEST_DENOMINATOR)
    if not 0 < rate <= _LARGEST_FPS:
        raise LoaderError(
            f"fps={fps!r} is not allowed; give frames per second above 0, such as 7.5"
        )
    return ByTime(rate)


def frame_offsets(rate: Rate, segment: Segment, num_frames: int, speed: int) -> list[int]:
    """Return the distance of each frame of a clip from its first frame, in positions.

    Args:
        rate: The step from frame to frame.
        segment: The part of the video from which clips are taken.
        num_frames: Frames of the clip, T.
        speed: Factor on the step, in units of 1 / SPEED_UNIT; distances are rounded down.
    """
    step = rate.step(segment) * speed
    return [number * step // SPEED_UNIT for number in range(num_frames)]


def choose_frames(
    rate: Rate, segment: Segment, positions: Sequence[int], padding: Padding
) -> NDArray[np.int64]:
    """Return the frames of a clip, int64 [T], as indices within the segment, counted in presentation order.

    Args:
        rate: The rate that defines the unit of the positions.
        segment: The part of the video from which clips are taken.
        positions: Positions of the T frames, ascending; some may be after the end of the segment.
        padding: The handling of positions after the end; see Clips.
    """
    length = rate.length(segment)
    if padding == "loop":
        inside = [position % length for position in positions]
    else:
        inside = [min(position, length - 1) for position in positions]
    frames = rate.frames_at(segment, inside)
    if padding == "repeat" and positions[-1] >= length:
        first = int(frames[0])
        return first + np.arange(len(positions)) * (len(segment.pts) - first) // len(positions)
    return frames
