"""The sampling rate of clips: every n-th frame, or frames per second."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.arguments.values import require_positive
from dali_pipes.errors import LoaderError
from dali_pipes.video.frame_numbers import (
    Padding,
    Start,
    frames_by_stride,
    frames_by_time,
    ticks,
    unpadded_moments,
    unpadded_numbers,
)
from readers.video.info import Segment


class Rate(Protocol):
    """A way to go from frame to frame, whose text is the argument. Its units are frames, or ticks."""

    @property
    def identity(self) -> str:
        """The text that enters fingerprints; it must not change when the class is renamed."""

    def length(self, segment: Segment) -> int:
        """Return how long a segment is."""

    def span(self, segment: Segment, num_frames: int) -> int:
        """Return how far it is from one clip to the next that follows it."""

    def choose(
        self, segment: Segment, num_frames: int, start: Start, padding: Padding, speed: int
    ) -> NDArray[np.int64]:
        """Return the numbers in a segment of a clip's frames, int64 [num_frames]; see `frames_by_stride`."""

    def beyond(
        self, segment: Segment, num_frames: int, start: Start, speed: int
    ) -> NDArray[np.bool_]:
        """Return which of a clip's frames would lie behind the end of a segment, bool [num_frames]."""


@dataclass(frozen=True)
class ByStride:
    """Every Nth frame."""

    stride: int

    def __str__(self) -> str:
        return f"stride={self.stride}"

    @property
    def identity(self) -> str:
        """See Rate."""
        return f"ByStride(stride={self.stride})"

    def length(self, segment: Segment) -> int:
        """See Rate."""
        return len(segment.pts)

    def span(self, segment: Segment, num_frames: int) -> int:  # noqa: ARG002 - any segment
        """See Rate."""
        return num_frames * self.stride

    def choose(
        self, segment: Segment, num_frames: int, start: Start, padding: Padding, speed: int
    ) -> NDArray[np.int64]:
        """See Rate."""
        num = len(segment.pts)
        return frames_by_stride(num, num_frames, self.stride, start, padding, speed=speed)

    def beyond(
        self, segment: Segment, num_frames: int, start: Start, speed: int
    ) -> NDArray[np.bool_]:
        """See Rate."""
        num = len(segment.pts)
        return unpadded_numbers(num, num_frames, self.stride, start, speed) >= num


@dataclass(frozen=True)
class ByTime:
    """A number of frames per second."""

    fps: Fraction

    def __str__(self) -> str:
        return f"fps={self.fps}"

    @property
    def identity(self) -> str:
        """See Rate."""
        return f"ByTime(fps=Fraction({self.fps.numerator}, {self.fps.denominator}))"

    def length(self, segment: Segment) -> int:
        """See Rate."""
        unit, _ = ticks(segment.time_base, self.fps)
        return (segment.stop - int(segment.pts[0])) * unit

    def span(self, segment: Segment, num_frames: int) -> int:
        """See Rate."""
        _, step = ticks(segment.time_base, self.fps)
        return num_frames * step

    def choose(
        self, segment: Segment, num_frames: int, start: Start, padding: Padding, speed: int
    ) -> NDArray[np.int64]:
        """See Rate."""
        pts, stop, base = segment.pts, segment.stop, segment.time_base
        return frames_by_time(pts, stop, base, num_frames, self.fps, start, padding, speed=speed)

    def beyond(
        self, segment: Segment, num_frames: int, start: Start, speed: int
    ) -> NDArray[np.bool_]:
        """See Rate."""
        duration, base = self.length(segment), segment.time_base
        moments = unpadded_moments(duration, base, num_frames, self.fps, start, speed)
        return np.array([moment >= duration for moment in moments])


def read_rate(stride: int | None, fps: float | Fraction | None) -> ByStride | ByTime:
    """Return the rate that was given, stride or fps.

    Raises:
        LoaderError: Neither or both are given, or the number is out of range.
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
        rate = Fraction(fps).limit_denominator(100_000)
    if not 0 < rate <= 1_000_000:
        raise LoaderError(
            f"fps={fps!r} is not allowed; give frames per second above 0, such as 7.5"
        )
    return ByTime(rate)
