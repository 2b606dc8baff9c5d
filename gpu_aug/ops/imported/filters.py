"""Blurs and other filters: of a lens, of frosted glass, and with kernels of any shape."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import (
    Filter,
    Kernels,
    Sampling,
    above_zero,
    gaussians,
    largest_of,
    odd_between,
    odd_range,
    whole_range,
    within,
)
from gpu_aug.ops.distributions.columns import Drawn, Integer, Key, Law, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, between
from gpu_aug.ops.operation import Operation

__all__ = ["AdvancedBlur", "ChromaticAberration", "Defocus", "GlassBlur", "ZoomBlur"]


@dataclass(frozen=True)
class Defocus(Filter):
    """Blur with a disk whose edge is softened.

    Args:
        radius: Smallest and largest radius of the disk in pixels, integers.
        alias_blur: Range of the standard deviation of the softening, in pixels.
        p: Share of the images that are changed.

    Source: Albumentations Defocus.
    """

    # Measured 0.0005 on noise and photographs.
    tolerance: ClassVar[float] = 0.002

    random: ClassVar[Random] = {"radius": Integer(), "alias_blur": Uniform(at_least=1e-3)}

    radius: Annotated[tuple[int, int], partial(whole_range, low=1, example="(3, 10)")] = (3, 10)
    alias_blur: Annotated[Range, partial(above_zero, example="(0.1, 0.5)")] = (0.1, 0.5)
    _: KW_ONLY
    p: float = 0.5

    def kernel(self, params: Params) -> Kernels:
        """Return the disks, float64 [B, k, k], centred in a kernel of the largest size."""
        radii, sigma = np.asarray(params["radius"]), np.asarray(params["alias_blur"])
        half = max(8, self.radius[1])
        kernel = np.zeros((len(radii), 2 * half + 1, 2 * half + 1))
        for radius in np.unique(radii).tolist():
            rows = radii == radius
            shifted = _shifted_disks(radius)
            taps = gaussians(sigma[rows], np.full(rows.sum(), len(shifted)), len(shifted))
            own = np.einsum("bi,bj,ijyx->byx", taps, taps, shifted)
            margin = half - own.shape[1] // 2
            inner = slice(margin, margin + own.shape[1])
            kernel[rows, inner, inner] = own
        return kernel


@lru_cache(maxsize=64)
def _shifted_disks(radius: int) -> Kernels:
    """Return the disk shifted by each offset of the softening kernel, float64 [s, s, k, k]."""
    half, soft = max(8, radius), 1 if radius <= 8 else 2
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    disk = ((x**2 + y**2) <= radius**2).astype(np.float64)
    padded = np.pad(disk / disk.sum(), soft, mode="reflect")
    width = 2 * half + 1
    return np.stack(
        [
            [padded[i : i + width, j : j + width] for j in range(2 * soft + 1)]
            for i in range(2 * soft + 1)
        ]
    )


@dataclass(frozen=True)
class ZoomBlur(Operation):
    """Average the image with copies of it that are zoomed into the middle by several factors.

    Args:
        max_factor: Range of the largest zoom factor, from 1.
        step_factor: Range of the step between factors, from 0.001. The factors are 1, 1 + step, 1 + 2 step and so on, below the
            largest.
        p: Share of the images that are changed.

    Source: Albumentations ZoomBlur.
    """

    # Measured 0.0001 on noise and photographs, in torch against OpenCV.
    tolerance: ClassVar[float] = 0.01
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    random: ClassVar[Random] = {"step": Uniform("step_factor"), "largest": Uniform("max_factor")}

    max_factor: Annotated[Range, validation.Interval(low=1, example="(1.0, 1.31)")] = (1.0, 1.31)
    step_factor: Annotated[Range, validation.Interval(low=0.001, example="(0.01, 0.03)")] = (
        0.01,
        0.03,
    )
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``step`` and ``largest``, float64 [B]: the step between zoom factors, and their limit."""
        step = drawn["step"]
        largest = np.maximum(1 + step, drawn["largest"])
        return {"step": step, "largest": largest}


@dataclass(frozen=True)
class GlassBlur(Operation):
    """Swap each pixel with a near one, as seen through frosted glass; it runs on the CPU in every engine.

    Args:
        sigma: Standard deviation of the blur before and after the swaps, in pixels.
        max_delta: Largest distance of a swap in pixels; downwards and to the right it is excluded.
        iterations: Number of swaps of each pixel.
        mode: "exact" swaps one pixel after the other and is very slow; "fast" swaps all at once.
        p: Share of the images that are changed.

    Source: Albumentations GlassBlur.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    any_channels: ClassVar[bool] = True

    random: ClassVar[Random] = {"key": Key()}

    sigma: Annotated[float, validation.Number(low=0, above=True, example="0.7")] = 0.7
    max_delta: Annotated[int, validation.Integer(low=1, example="2")] = 4
    iterations: Annotated[int, validation.Integer(low=1, example="2")] = 2
    _: KW_ONLY
    mode: Literal["fast", "exact"] = "fast"
    p: float = 0.5


@dataclass(frozen=True)
class ChromaticAberration(Operation):
    """Distort the red and the blue channel radially, in 8 bits; it runs on the CPU in every engine.

    Args:
        primary: Range of the first radial coefficient.
        secondary: Range of the second radial coefficient, which gets the sign of the first.
        mode: Signs of the coefficients: equal for red and blue ("green_purple"), opposite ("red_blue"), or as drawn ("random").
        sampling: Interpolation of the channels.
        p: Share of the images that are changed.

    Source: Albumentations ChromaticAberration (primary_distortion_limit,
    secondary_distortion_limit).
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "red_primary": Uniform("primary"),
        "red_secondary": Uniform("secondary"),
        "blue_primary": Uniform("primary"),
        "blue_secondary": Uniform("secondary"),
    }

    primary: Annotated[Range, validation.Interval(low=-np.inf, example="(-0.02, 0.02)")] = (
        -0.02,
        0.02,
    )
    secondary: Annotated[Range, validation.Interval(low=-np.inf, example="(-0.02, 0.02)")] = (
        -0.05,
        0.05,
    )
    _: KW_ONLY
    mode: Literal["green_purple", "red_blue", "random"] = "green_purple"
    sampling: Sampling = "bilinear"
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``red`` and ``blue``, float64 [B, 2]: the first and second coefficient of each channel."""
        red = np.stack([drawn["red_primary"], drawn["red_secondary"]], axis=1)
        blue = np.stack([drawn["blue_primary"], drawn["blue_secondary"]], axis=1)
        for pair in (red, blue):
            pair[:, 1] = np.where(pair[:, 0] * pair[:, 1] < 0, -pair[:, 1], pair[:, 1])
        if self.mode == "green_purple":
            blue = np.where(red * blue < 0, -blue, blue)
        elif self.mode == "red_blue":
            blue = np.where(red * blue > 0, -blue, blue)
        return {"red": red, "blue": blue}


def zooms(step: float, largest: float) -> list[float]:
    """Return the zoom factors of a ZoomBlur."""
    factors: list[float] = np.arange(1.0, largest, step).tolist()
    return factors


def zoom_window(length: int, factor: float) -> tuple[int, int, int, int]:
    """Return how one zoom treats an axis of ``length`` pixels.

    Returns:
        Index of the first pixel that is kept, number of pixels that are kept, the length that they are resized to, and how many
        of the resized pixels come before the result.
    """
    kept = math.ceil(length / factor)
    grown = max(int(kept * factor), length)  # rounding may make it shorter
    return (length - kept) // 2, kept, grown, (grown - length) // 2


def _area(operation: "AdvancedBlur") -> int:
    """Return the number of weights of the largest kernel."""
    return largest_of(operation.kernel_size) ** 2


def _around_one(operation: str, field: str, value: Any) -> tuple[float, float]:
    ends = validation.interval(operation, field, value, low=0, example="(0.5, 8.0)")
    if not ends[0] <= 1 <= ends[1]:
        raise validation.fault(operation, field, value, "a range around 1, such as (0.5, 8.0)")
    return ends


@dataclass(frozen=True)
class AdvancedBlur(Filter):
    """Blur with a generalised Gaussian kernel that is rotated and noisy.

    Args:
        kernel_size: Odd width of the kernel in pixels, or its smallest and largest value, odd too.
        sigma_x: Range of the standard deviation along the kernel's first axis, in pixels, above 0.
        sigma_y: Range of the standard deviation along the kernel's second axis, in pixels, above 0.
        angle: Range of the kernel's rotation in degrees.
        beta: Range, which must contain 1, of the exponent: half of the images get one below 1, half one above.
        noise: Range of the random factors of the kernel's numbers.
        p: Share of the images that are changed.

    Source: Albumentations AdvancedBlur (blur_limit, sigma_x_limit, sigma_y_limit, rotate_limit,
    beta_limit, noise_limit).
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {
        "size": Law(odd_between, "kernel_size"),
        "sigma_x": Uniform(at_least=1e-4),
        "sigma_y": Uniform(at_least=1e-4),
        "angle": Uniform(),
        "beta": Numbers(2),
        "noise": Uniform(count=_area, at_least=1e-9),
    }

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    sigma_x: Annotated[Range, partial(above_zero, example="(0.2, 1.0)")] = (0.2, 1.0)
    sigma_y: Annotated[Range, partial(above_zero, example="(0.2, 1.0)")] = (0.2, 1.0)
    _: KW_ONLY
    angle: Annotated[Range, validation.Interval(low=-np.inf, example="(-90, 90)")] = (-90.0, 90.0)
    beta: Annotated[Range, _around_one] = (0.5, 8.0)
    noise: Annotated[Range, partial(above_zero, example="(0.9, 1.1)")] = (0.9, 1.1)
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``kernel``, float64 [B, k, k]."""
        largest = largest_of(self.kernel_size)
        sigma = np.stack([drawn["sigma_x"], drawn["sigma_y"]])
        angle = np.deg2rad(drawn["angle"])
        side, share = drawn["beta"].T
        below, above = between(share, (self.beta[0], 1)), between(share, (1, self.beta[1]))
        beta = np.where(side < 0.5, below, above)
        y, x = np.mgrid[:largest, :largest] - largest // 2
        cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
        along, across = x * cos + y * sin, y * cos - x * sin
        squares = (along / sigma[0, :, None, None]) ** 2 + (across / sigma[1, :, None, None]) ** 2
        kernel = np.exp(-0.5 * squares ** beta[:, None, None])
        inside = within(drawn["size"], largest)
        kernel *= drawn["noise"].reshape(kernel.shape)
        kernel *= inside[:, :, None] * inside[:, None, :]
        return {
            "kernel": kernel / kernel.sum(axis=(1, 2), keepdims=True),
        }
