"""The base of convolutions with a kernel drawn per image."""

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.operation import Operation

__all__ = ["Filter", "SeparableFilter"]

Kernels = NDArray[np.float64]

# The sampling methods of OpenCV that 8-bit operations pass on.
Sampling = Literal[
    "nearest", "nearest_exact", "bilinear", "bilinear_exact", "bicubic", "area", "lanczos"
]


class Filter(Operation, abstract=True):
    """A convolution with one kernel per image, the same for all channels.

    The border of the image is mirrored without the last pixel (dcb|abcd|cba), repeatedly if the kernel is larger than the
    image. ``clamps`` tells whether the result is clamped to [0, 1].
    """

    clamps: ClassVar[bool] = False
    any_channels: ClassVar[bool] = True

    def kernel(self, params: Params) -> Kernels:
        """Return float64 [B, k, k], k odd and the same for every batch, from the result of ``draw``.

        It is not flipped: the number at (0, 0) weighs the pixel above and to the left.
        """
        return np.asarray(params["kernel"], np.float64)


class SeparableFilter(Filter, abstract=True):
    """A filter whose kernel is a column times a row."""

    @abstractmethod
    def kernel(self, params: Params) -> Kernels:
        """Return float64 [B, 2, k]: the column, then the row."""


def gaussians(sigma: NDArray[Any], size: NDArray[Any], largest: int) -> Kernels:
    """Return Gaussians of odd ``size`` in the middle of ``largest`` numbers, float64 [B, largest]."""
    offsets = np.arange(largest) - largest // 2
    weights = np.exp(-0.5 * (offsets / sigma[:, None]) ** 2) * within(size, largest)
    normal: Kernels = weights / weights.sum(axis=1, keepdims=True)
    return normal


def within(size: NDArray[Any], largest: int) -> Kernels:
    """Return ones on the odd ``size`` in the middle of ``largest`` numbers, float64 [B, largest]."""
    offsets = np.abs(np.arange(largest) - largest // 2)
    inside: Kernels = (offsets <= size[:, None] // 2).astype(np.float64)
    return inside


def above_zero(
    name: str, field: str, value: Any, *, high: float = math.inf, example: str
) -> tuple[float, float]:
    """Return (smallest, largest) from 0 to ``high``, the largest above 0."""
    ends = validation.interval(name, field, value, low=0, high=high, example=example)
    if ends[1] == 0:
        raise validation.fault(
            name, field, value, f"a range that reaches above 0, such as {example}"
        )
    return ends


def is_odd(value: Any) -> bool:
    """Whether ``value`` is an odd whole number of at least 1."""
    return validation.is_whole(value) and value > 0 and value % 2 == 1


def odd(name: str, field: str, value: Any) -> int:
    """Return an odd whole number."""
    if not is_odd(value):
        raise validation.fault(name, field, value, "an odd whole number, such as 5")
    return int(value)


def whole_range(name: str, field: str, value: Any, *, low: int, example: str) -> tuple[int, int]:
    """Return (smallest, largest) of whole numbers from ``low``; one number is both."""
    ends = (value, value) if validation.is_whole(value) else value
    if validation.is_sequence(ends, 2) and all(validation.is_whole(end) for end in ends):
        smallest, largest = int(ends[0]), int(ends[1])
        if low <= smallest <= largest:
            return smallest, largest
    raise validation.fault(
        name, field, value, f"whole numbers (smallest, largest) from {low}, such as {example}"
    )


def odd_range(name: str, field: str, value: Any) -> int | tuple[int, int]:
    """Return one odd number, or the smallest and the largest."""
    ends = (value, value) if validation.is_whole(value) else value
    if validation.is_sequence(ends, 2) and all(is_odd(end) for end in ends) and ends[0] <= ends[1]:
        return int(ends[0]) if ends[0] == ends[1] else (int(ends[0]), int(ends[1]))
    raise validation.fault(
        name, field, value, "an odd whole number or (smallest, largest) of them, such as (3, 7)"
    )


def largest_of(size: int | tuple[int, int]) -> int:
    """Return the largest size in a result of ``odd_range``."""
    return size if isinstance(size, int) else size[1]


def odd_between(u: Uniforms, size: int | tuple[int, int]) -> Sizes:
    """Uniform odd numbers from a result of ``odd_range``."""
    low, high = (size, size) if isinstance(size, int) else size
    return low + 2 * whole_below(u, (high - low) // 2 + 1)
