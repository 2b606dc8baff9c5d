"""Base classes of convolutions with a kernel drawn per image, and checks of their fields."""

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
    """Base of convolutions with one kernel per image, which is used for all channels.

    The border of the image is mirrored without the last pixel (dcb|abcd|cba), repeatedly if the kernel is larger than the image.
    ``clamps`` says whether the result is clamped to [0, 1].
    """

    clamps: ClassVar[bool] = False
    any_channels: ClassVar[bool] = True

    def kernel(self, params: Params) -> Kernels:
        """Return the kernels, float64 [B, k, k], for the parameters that ``draw`` returned; k is odd and equal for all batches.

        Kernels are not flipped: the number at (0, 0) is the weight of the pixel above and to the left.
        """
        return np.asarray(params["kernel"], np.float64)


class SeparableFilter(Filter, abstract=True):
    """Base of convolutions whose kernel is the product of a column and a row."""

    @abstractmethod
    def kernel(self, params: Params) -> Kernels:
        """Return the column and the row of each kernel, float64 [B, 2, k]."""


def gaussians(sigma: NDArray[Any], size: NDArray[Any], largest: int) -> Kernels:
    """Return Gaussian kernels of odd length ``size``, padded with zeros on both sides: float64 [B, largest]."""
    offsets = np.arange(largest) - largest // 2
    weights = np.exp(-0.5 * (offsets / sigma[:, None]) ** 2) * within(size, largest)
    normal: Kernels = weights / weights.sum(axis=1, keepdims=True)
    return normal


def within(size: NDArray[Any], largest: int) -> Kernels:
    """Return ones on an odd length ``size``, centred in ``largest`` numbers that are 0 elsewhere, float64 [B, largest]."""
    offsets = np.abs(np.arange(largest) - largest // 2)
    inside: Kernels = (offsets <= size[:, None] // 2).astype(np.float64)
    return inside


def above_zero(
    name: str, field: str, value: Any, *, high: float = math.inf, example: str
) -> tuple[float, float]:
    """Check that a range lies within 0 to ``high`` and ends above 0; return (smallest, largest)."""
    ends = validation.interval(name, field, value, low=0, high=high, example=example)
    if ends[1] == 0:
        raise validation.fault(
            name, field, value, f"a range that reaches above 0, such as {example}"
        )
    return ends


def is_odd(value: Any) -> bool:
    """Return whether ``value`` is an odd integer of at least 1."""
    return validation.is_whole(value) and value > 0 and value % 2 == 1


def odd(name: str, field: str, value: Any) -> int:
    """Check that a value is an odd integer of at least 1, and return it."""
    if not is_odd(value):
        raise validation.fault(name, field, value, "an odd whole number, such as 5")
    return int(value)


def whole_range(name: str, field: str, value: Any, *, low: int, example: str) -> tuple[int, int]:
    """Check a range of integers from ``low``, or one integer for both ends; return (smallest, largest)."""
    ends = (value, value) if validation.is_whole(value) else value
    if validation.is_sequence(ends, 2) and all(validation.is_whole(end) for end in ends):
        smallest, largest = int(ends[0]), int(ends[1])
        if low <= smallest <= largest:
            return smallest, largest
    raise validation.fault(
        name, field, value, f"whole numbers (smallest, largest) from {low}, such as {example}"
    )


def odd_range(name: str, field: str, value: Any) -> int | tuple[int, int]:
    """Check an odd integer or a range of odd integers; return the integer, or (smallest, largest) if they differ."""
    ends = (value, value) if validation.is_whole(value) else value
    if validation.is_sequence(ends, 2) and all(is_odd(end) for end in ends) and ends[0] <= ends[1]:
        return int(ends[0]) if ends[0] == ends[1] else (int(ends[0]), int(ends[1]))
    raise validation.fault(
        name, field, value, "an odd whole number or (smallest, largest) of them, such as (3, 7)"
    )


def largest_of(size: int | tuple[int, int]) -> int:
    """Return the largest integer of a value that ``odd_range`` returned."""
    return size if isinstance(size, int) else size[1]


def odd_between(u: Uniforms, size: int | tuple[int, int]) -> Sizes:
    """Return odd integers, int64 [B], drawn uniformly from a range that ``odd_range`` returned."""
    low, high = (size, size) if isinstance(size, int) else size
    return low + 2 * whole_below(u, (high - low) // 2 + 1)
