"""Blur operations: convolutions with a kernel drawn per image, and the median."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import (
    Filter,
    Kernels,
    SeparableFilter,
    above_zero,
    gaussians,
    is_odd,
    largest_of,
    odd_between,
    odd_range,
    whole_range,
    within,
)
from gpu_aug.ops.distributions.columns import Drawn, Integer, Law, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.operation import Operation

__all__ = ["Blur", "GaussianBlur", "MedianBlur", "MotionBlur", "RandomGaussianBlur"]


def _odd_sides(operation: str, field: str, value: Any) -> int | tuple[int, int]:
    sides: Any = (value, value) if validation.is_whole(value) else value
    if not validation.is_sequence(sides, 2) or not all(is_odd(side) for side in sides):
        allowed = "an odd whole number, or two of them (height, width), for example 23"
        raise validation.fault(operation, field, value, allowed)
    height, width = (int(side) for side in sides)
    return height if height == width else (height, width)


@dataclass(frozen=True)
class GaussianBlur(SeparableFilter):
    """Blur with a Gaussian kernel; the image is mirrored at its border.

    Args:
        kernel_size: Odd width of the square kernel in pixels, or its (height, width).
        sigma: Range of the standard deviation in pixels, drawn uniformly.
        p: Share of the images that are changed.

    Source: torchvision v2 GaussianBlur, whose kernel_size is (width, height); ``p`` is
    torchvision's RandomApply around it.

    Example:
        >>> [result] = apply(Recipe([GaussianBlur(5, sigma=(0.1, 2.0), p=1.0)]), [{"image": np.zeros((8, 8, 3), np.uint8)}])
        >>> result["image"].shape
        torch.Size([3, 8, 8])
    """

    # Measured 0.0002 on noise and photographs with kernels of 3 to 171.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {"sigma": Uniform()}

    kernel_size: Annotated[int | tuple[int, int], _odd_sides]
    sigma: Annotated[Range, validation.OneOrTwo(low=0, above=True, example="(0.1, 2.0)")] = (
        0.1,
        2.0,
    )
    _: KW_ONLY
    p: float = 1.0

    def kernel(self, params: Params) -> Kernels:
        """Return the Gaussian of each image as column and row, float64 [B, 2, k], padded to the larger kernel side."""
        size = self.kernel_size
        sides = (size, size) if isinstance(size, int) else size
        sigma = np.asarray(params["sigma"])
        return np.stack(
            [gaussians(sigma, np.full(len(sigma), side), max(sides)) for side in sides], axis=1
        )


@dataclass(frozen=True)
class RandomGaussianBlur(SeparableFilter):
    """Blur with a Gaussian kernel whose size is drawn, or follows from sigma.

    Args:
        kernel_size: Smallest and largest width of the square kernel in pixels, drawn uniformly. A drawn even width becomes
            the next odd one; a drawn 0 becomes ``2 * int(3.5 * sigma) + 1``.
        sigma: Range of the standard deviation in pixels, drawn uniformly.
        p: Share of the images that are changed.

    Source: Albumentations GaussianBlur (blur_limit, sigma_limit).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {"sigma": Uniform(at_least=1e-6), "size": Integer("kernel_size")}

    kernel_size: Annotated[tuple[int, int], partial(whole_range, low=0, example="(3, 7)")] = (0, 0)
    sigma: Annotated[Range, partial(above_zero, example="(0.5, 3.0)")] = (0.5, 3.0)
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``sigma``, float64 [B], and ``size``, int64 [B]."""
        sigma = drawn["sigma"]
        size = drawn["size"]
        size = np.where(size == 0, (sigma * 3.5).astype(np.int64) * 2, size)
        return {"sigma": sigma, "size": size + (size % 2 == 0)}

    def kernel(self, params: Params) -> Kernels:
        """Return the Gaussian of each image as column and row, float64 [B, 2, k]."""
        automatic = int(self.sigma[1] * 3.5) * 2 if self.kernel_size[0] == 0 else 0
        largest = max(automatic, self.kernel_size[1]) // 2 * 2 + 1
        return both(gaussians(params["sigma"], params["size"], largest))


@dataclass(frozen=True)
class Blur(SeparableFilter):
    """Replace each pixel by the mean over a square around it.

    Args:
        kernel_size: Odd width of the square in pixels, or its smallest and largest value, odd too; each odd number
            between them is equally likely.
        p: Share of the images that are changed.

    Source: Albumentations Blur (blur_limit).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {"size": Law(odd_between, "kernel_size")}

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    _: KW_ONLY
    p: float = 0.5

    def kernel(self, params: Params) -> Kernels:
        """Return the box kernel of each image as column and row, float64 [B, 2, k]."""
        inside = within(params["size"], largest_of(self.kernel_size))
        return both(inside / inside.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class MotionBlur(Filter):
    """Blur along a line, as if the camera or the object moved.

    Args:
        kernel_size: Odd width of the kernel in pixels, or its smallest and largest value, odd too.
        angle: Range of the line's direction in degrees; 90 is down.
        direction: Range, within [-1, 1], of where the line lies: around the pixel (0), before it (-1) or behind it (1).
        allow_shifted: Whether the line is also shifted by up to a quarter of the kernel.
        p: Share of the images that are changed.

    Source: Albumentations MotionBlur (blur_limit, angle_range, direction_range).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {
        "size": Law(odd_between, "kernel_size"),
        "angle": Uniform(),
        "direction": Uniform(),
        "shift": Numbers(2),
    }

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    angle: Annotated[Range, validation.Interval(low=-360, high=360, example="(0, 360)")] = (
        0.0,
        360.0,
    )
    direction: Annotated[Range, validation.Interval(low=-1, high=1, example="(-1, 1)")] = (
        -1.0,
        1.0,
    )
    _: KW_ONLY
    allow_shifted: bool = True
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``kernel``, float64 [B, k, k]: equal weights on the pixels of the line, 0 elsewhere."""
        size = drawn["size"][:, None]
        angle = np.deg2rad(drawn["angle"])[:, None]
        direction = drawn["direction"][:, None]
        half, largest = size // 2, largest_of(self.kernel_size)
        first = -half * np.where(direction > 0, 1 - direction, 1)
        last = half * np.where(direction < 0, 1 + direction, 1)
        step = np.minimum(np.arange(largest), size - 1)  # the last point of a short line repeats
        t = first + step * (last - first) / np.maximum(size - 1, 1)
        columns, rows = half + np.cos(angle) * t, half + np.sin(angle) * t
        if self.allow_shifted:
            shift = 2 * drawn["shift"] - 1
            columns = columns + shift[:, :1] * half / 2
            rows = rows + shift[:, 1:] * half / 2
        margin = largest // 2 - half
        columns, rows = (
            np.clip(np.rint(line), 0, size - 1).astype(np.int64) + margin
            for line in (columns, rows)
        )
        kernel = np.zeros((len(sizes), largest, largest))
        kernel[np.arange(len(sizes))[:, None], rows, columns] = 1
        return {
            "kernel": kernel / kernel.sum(axis=(1, 2), keepdims=True),
        }


def both(line: Kernels) -> Kernels:
    """Return a kernel [B, k] as its own column and row, [B, 2, k]."""
    return np.stack([line, line], axis=1)


@dataclass(frozen=True)
class MedianBlur(Operation):
    """Replace each pixel by the median over a square around it, in 8 bits; the image's edge is repeated.

    Args:
        kernel_size: Odd width of the square in pixels, or its smallest and largest value, odd too.
        p: Share of the images that are changed.

    Source: Albumentations MedianBlur (blur_limit), OpenCV medianBlur.
    """

    # Measured 0: whole numbers.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: a median is one of the values."""

    random: ClassVar[Random] = {"size": Law(odd_between, "kernel_size")}

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    _: KW_ONLY
    p: float = 0.5
