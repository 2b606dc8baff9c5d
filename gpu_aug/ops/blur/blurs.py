"""Operations that blur: convolutions with a kernel drawn per image."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

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
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between, whole_between

__all__ = ["AdvancedBlur", "Blur", "GaussianBlur", "MotionBlur", "RandomGaussianBlur"]


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
        sigma: Range of the standard deviation in pixels.
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

    num_uniforms: ClassVar[int] = 2
    """The gate and sigma."""

    kernel_size: int | tuple[int, int]
    sigma: tuple[float, float] = (0.1, 2.0)
    _: KW_ONLY
    p: float = 1.0

    checks: ClassVar[validation.Checks] = {
        "kernel_size": _odd_sides,
        "sigma": partial(validation.one_or_two, low=0, above=True, example="(0.1, 2.0)"),
    }

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``sigma``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "sigma": between(u[:, 1], self.sigma)}

    def kernel(self, params: Params) -> Kernels:
        """Gaussians of the two lengths, in the length of the longer one."""
        size = self.kernel_size
        sides = (size, size) if isinstance(size, int) else size
        sigma = np.asarray(params["sigma"])
        return np.stack(
            [gaussians(sigma, np.full(len(sigma), side), max(sides)) for side in sides], axis=1
        )


@dataclass(frozen=True)
class RandomGaussianBlur(SeparableFilter):
    """Blur with a Gaussian kernel whose size is drawn too, or follows from sigma.

    Args:
        kernel_size: Smallest and largest width of the square kernel in pixels. Every whole number
            between them is equally likely; an even one becomes the next odd one, and 0 becomes
            ``2 * int(3.5 * sigma) + 1``.
        sigma: Range of the standard deviation in pixels, uniform.
        p: Share of the images that are changed.

    Source: Albumentations GaussianBlur (blur_limit, sigma_limit).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    num_uniforms: ClassVar[int] = 3
    """The gate, sigma and the size."""

    kernel_size: tuple[int, int] = (0, 0)
    sigma: tuple[float, float] = (0.5, 3.0)
    _: KW_ONLY
    p: float = 0.5

    checks: ClassVar[validation.Checks] = {
        "kernel_size": partial(whole_range, low=0, example="(3, 7)"),
        "sigma": partial(above_zero, example="(0.5, 3.0)"),
    }

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``sigma``, float64 [B], and ``size``, int64 [B]."""
        sigma = np.maximum(between(u[:, 1], self.sigma), 1e-6)
        size = whole_between(u[:, 2], self.kernel_size)
        size = np.where(size == 0, (sigma * 3.5).astype(np.int64) * 2, size)
        return {"apply": u[:, 0] < self.p, "sigma": sigma, "size": size + (size % 2 == 0)}

    def kernel(self, params: Params) -> Kernels:
        """Gaussians."""
        automatic = int(self.sigma[1] * 3.5) * 2 if self.kernel_size[0] == 0 else 0
        largest = max(automatic, self.kernel_size[1]) // 2 * 2 + 1
        return both(gaussians(params["sigma"], params["size"], largest))


@dataclass(frozen=True)
class Blur(SeparableFilter):
    """Take the mean over a square around each pixel.

    Args:
        kernel_size: Odd width of the square in pixels, or its smallest and largest value, odd too;
            each odd number between them is equally likely.
        p: Share of the images that are changed.

    Source: Albumentations Blur (blur_limit).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    num_uniforms: ClassVar[int] = 2
    """The gate and the size."""

    kernel_size: int | tuple[int, int] = (3, 7)
    _: KW_ONLY
    p: float = 0.5

    checks: ClassVar[validation.Checks] = {
        "kernel_size": odd_range,
    }

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``size``, int64 [B]."""
        return {"apply": u[:, 0] < self.p, "size": odd_between(u[:, 1], self.kernel_size)}

    def kernel(self, params: Params) -> Kernels:
        """Ones divided by their number."""
        inside = within(params["size"], largest_of(self.kernel_size))
        return both(inside / inside.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class MotionBlur(Filter):
    """Blur along a line, as a camera or an object that moves.

    Args:
        kernel_size: Odd width of the kernel in pixels, or its smallest and largest value, odd too.
        angle: Range of the line's direction in degrees; 90 is down.
        direction: Range within [-1, 1] of where the line lies: around the pixel (0), before it
            (-1) or behind it (1).
        allow_shifted: Whether the line is also shifted by up to a quarter of the kernel.
        p: Share of the images that are changed.

    Source: Albumentations MotionBlur (blur_limit, angle_range, direction_range).
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    num_uniforms: ClassVar[int] = 6
    """The gate, the size, the angle, the direction and two shifts."""

    kernel_size: int | tuple[int, int] = (3, 7)
    angle: tuple[float, float] = (0.0, 360.0)
    direction: tuple[float, float] = (-1.0, 1.0)
    _: KW_ONLY
    allow_shifted: bool = True
    p: float = 0.5

    checks: ClassVar[validation.Checks] = {
        "kernel_size": odd_range,
        "angle": partial(validation.interval, low=-360, high=360, example="(0, 360)"),
        "direction": partial(validation.interval, low=-1, high=1, example="(-1, 1)"),
        "allow_shifted": validation.flag,
    }

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``kernel``, float64 [B, k, k]: the points of the line, all alike."""
        size = odd_between(u[:, 1], self.kernel_size)[:, None]
        angle = np.deg2rad(between(u[:, 2], self.angle))[:, None]
        direction = between(u[:, 3], self.direction)[:, None]
        half, largest = size // 2, largest_of(self.kernel_size)
        first = -half * np.where(direction > 0, 1 - direction, 1)
        last = half * np.where(direction < 0, 1 + direction, 1)
        step = np.minimum(np.arange(largest), size - 1)  # the last point of a short line repeats
        t = first + step * (last - first) / np.maximum(size - 1, 1)
        columns, rows = half + np.cos(angle) * t, half + np.sin(angle) * t
        if self.allow_shifted:
            columns = columns + (2 * u[:, 4:5] - 1) * half / 2
            rows = rows + (2 * u[:, 5:6] - 1) * half / 2
        margin = largest // 2 - half
        columns, rows = (
            np.clip(np.rint(line), 0, size - 1).astype(np.int64) + margin
            for line in (columns, rows)
        )
        kernel = np.zeros((len(u), largest, largest))
        kernel[np.arange(len(u))[:, None], rows, columns] = 1
        return {
            "apply": u[:, 0] < self.p,
            "kernel": kernel / kernel.sum(axis=(1, 2), keepdims=True),
        }


@dataclass(frozen=True)
class AdvancedBlur(Filter):
    """Blur with a generalised, turned and noisy Gaussian.

    Args:
        kernel_size: Odd width of the kernel in pixels, or its smallest and largest value, odd too.
        sigma_x: Range of the standard deviation along the kernel's first axis, in pixels, above 0.
        sigma_y: The same along its second axis.
        angle: Range of the kernel's turn in degrees.
        beta: Range of the exponent, around 1: half the images get one below 1, half one above.
        noise: Range of the numbers that each number of the kernel is multiplied by.
        p: Share of the images that are changed.

    Source: Albumentations AdvancedBlur (blur_limit, sigma_x_limit, sigma_y_limit, rotate_limit,
    beta_limit, noise_limit).
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    kernel_size: int | tuple[int, int] = (3, 7)
    sigma_x: tuple[float, float] = (0.2, 1.0)
    sigma_y: tuple[float, float] = (0.2, 1.0)
    _: KW_ONLY
    angle: tuple[float, float] = (-90.0, 90.0)
    beta: tuple[float, float] = (0.5, 8.0)
    noise: tuple[float, float] = (0.9, 1.1)
    p: float = 0.5

    checks: ClassVar[validation.Checks] = {
        "kernel_size": odd_range,
        **dict.fromkeys(("sigma_x", "sigma_y"), partial(above_zero, example="(0.2, 1.0)")),
        "angle": partial(validation.interval, low=-np.inf, example="(-90, 90)"),
        "beta": partial(validation.interval, low=0, example="(0.5, 8.0)"),
        "noise": partial(above_zero, example="(0.9, 1.1)"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta[0] <= 1 <= self.beta[1]:
            raise validation.fault(
                "AdvancedBlur", "beta", self.beta, "a range around 1, such as (0.5, 8.0)"
            )

    @property
    def num_uniforms(self) -> int:
        """The gate, the size, two sigmas, the angle, two for beta, and one per number of the kernel."""
        return 7 + largest_of(self.kernel_size) ** 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``kernel``, float64 [B, k, k]."""
        largest = largest_of(self.kernel_size)
        size = odd_between(u[:, 1], self.kernel_size)
        sigma = np.maximum(
            np.stack([between(u[:, 2], self.sigma_x), between(u[:, 3], self.sigma_y)]), 1e-4
        )
        angle = np.deg2rad(between(u[:, 4], self.angle))
        beta = np.where(
            u[:, 5] < 0.5, between(u[:, 6], (self.beta[0], 1)), between(u[:, 6], (1, self.beta[1]))
        )
        y, x = np.mgrid[:largest, :largest] - largest // 2
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
        along, across = x * cos + y * sin, y * cos - x * sin
        squares = (along / sigma[0, :, None, None]) ** 2 + (across / sigma[1, :, None, None]) ** 2
        kernel = np.exp(-0.5 * squares ** beta[:, None, None])
        inside = within(size, largest)
        kernel *= np.maximum(between(u[:, 7:], self.noise), 1e-9).reshape(kernel.shape)
        kernel *= inside[:, :, None] * inside[:, None, :]
        return {
            "apply": u[:, 0] < self.p,
            "kernel": kernel / kernel.sum(axis=(1, 2), keepdims=True),
        }


def both(line: Kernels) -> Kernels:
    """Use the same numbers as column and as row."""
    return np.stack([line, line], axis=1)
