"""Distances of a LeRobot depth camera: the settings in meta/info.json with which they were stored."""

import math
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

_DEFAULT_MIN_M = 0.01  # lerobot's DepthEncoderConfig, for a dataset that states no settings


class DepthCodes(msgspec.Struct, frozen=True):
    """How the distances of a depth camera are stored, as meta/info.json says.

    Videos hold codes, equal steps of the distance or of its logarithm: code 0 stands for `depth_min`, the largest code for
    `depth_max`. Tables hold distances. The formulas and defaults are those of lerobot 0.6, datasets/depth_utils.py and
    configs/video.py. lerobot writes codes of 12 bits; codes of other formats, such as gray16le, span all of their bits, as
    FFmpeg's conversion to 12 bits assumes.

    Attributes:
        depth_min: Smallest distance in metres; None if it is not stated, which means 0.01.
        depth_max: Largest distance in metres.
        shift: Metres that are added before the logarithm is taken.
        use_log: Whether the codes are steps of the logarithm.
        depth_unit: Unit of the distances in tables, metres or millimetres; None for metres in floats, millimetres in integers.

    Raises:
        ValueError: The settings define no codes.
    """

    depth_min: float | None = msgspec.field(default=None, name="video.depth_min")
    depth_max: float = msgspec.field(default=10.0, name="video.depth_max")
    shift: float = msgspec.field(default=3.5, name="video.shift")
    use_log: bool = msgspec.field(default=True, name="video.use_log")
    depth_unit: Literal["m", "mm"] | None = None

    def __post_init__(self) -> None:
        low, high = self.limits
        is_positive = not self.use_log or low + self.shift > 0
        if not (low < high and is_positive and math.isfinite(high - low + self.shift)):
            raise ValueError(
                f"video.depth_min={low}, video.depth_max={high} and video.shift={self.shift} define no distances: "
                "depth_min must be below depth_max and, with video.use_log, above -shift"
            )

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest distance in metres."""
        return _DEFAULT_MIN_M if self.depth_min is None else self.depth_min, self.depth_max

    def from_codes(self, codes: NDArray[Any], bits: int) -> NDArray[np.float32]:
        """Return the distances that codes of a video stand for, in metres.

        Args:
            codes: Integers from 0, any shape; numbers beyond the largest code count as that one.
            bits: Bits of a code, 8 to 16.
        """
        return _table(self, bits).take(codes, mode="clip")

    def from_numbers(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Return the distances that a picture in a table holds, in metres; NaN and 0 are kept."""
        unit = self.depth_unit or ("m" if numbers.dtype.kind == "f" else "mm")
        metres = numbers.astype(np.float32)
        return metres if unit == "m" else metres / np.float32(1000)


@cache
def _table(codes: DepthCodes, bits: int) -> NDArray[np.float32]:
    """Return the distance of each code in metres, float32 [2**bits], computed in float32 as lerobot does."""
    low, high = codes.limits
    first, last = (math.log(one + codes.shift) if codes.use_log else one for one in (low, high))
    steps = np.arange(1 << bits, dtype=np.float32)
    values = steps * np.float32((last - first) / ((1 << bits) - 1)) + np.float32(first)
    metres = np.exp(values) - np.float32(codes.shift) if codes.use_log else values
    return metres.clip(np.float32(low), np.float32(high))
