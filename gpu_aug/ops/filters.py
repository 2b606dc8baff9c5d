"""Operations that mix each pixel with its neighbours: convolutions with a kernel drawn per image."""

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.sampling import Sizes, Uniforms, between, whole_below, whole_between

__all__ = [
    "Blur",
    "Emboss",
    "Filter",
    "GaussianBlur",
    "MotionBlur",
    "RandomGaussianBlur",
    "SeparableFilter",
    "Sharpen",
]

Kernels = NDArray[np.float64]


class Filter(Operation, abstract=True):
    """A convolution with one kernel per image, the same for all channels.

    Beside the image it is mirrored without its last pixel (dcb|abcd|cba), as often as a kernel
    that is larger than the image needs. ``clamps`` says whether the result is clamped to [0, 1].
    """

    clamps: ClassVar[bool] = False

    def kernel(self, params: Params) -> Kernels:
        """Return float64 [B, k, k], k odd and the same for every batch, of what ``draw`` returned.

        It is not flipped: the number at (0, 0) weighs the pixel above and to the left.
        """
        return np.asarray(params["kernel"], np.float64)


class SeparableFilter(Filter, abstract=True):
    """A filter whose kernel is a column times a row."""

    @abstractmethod
    def kernel(self, params: Params) -> Kernels:
        """Return float64 [B, 2, k]: the column, then the row."""


@dataclass(frozen=True)
class GaussianBlur(SeparableFilter):
    """Blur with a Gaussian kernel; the image is mirrored at its border.

    Args:
        kernel_size: Odd width of the square kernel in pixels, or its (height, width).
        sigma: Range of the standard deviation in pixels.
        p: Share of the images that are changed.

    Source: torchvision v2 GaussianBlur, whose kernel_size is (width, height); ``p`` is
    torchvision's RandomApply around it.
    """

    # Measured 0.0002 on noise and photographs with kernels of 3 to 171.
    tolerance: ClassVar[float] = 0.001

    kernel_size: int | tuple[int, int]
    sigma: tuple[float, float] = (0.1, 2.0)
    _: KW_ONLY
    p: float = 1.0

    def __post_init__(self) -> None:
        size = self.kernel_size
        sides: Any = (size, size) if fields.is_whole(size) else size
        if not fields.is_sequence(sides, 2) or not all(is_odd(side) for side in sides):
            raise fields.fault(
                "GaussianBlur",
                "kernel_size",
                size,
                "an odd whole number, or two of them (height, width), for example 23",
            )
        height, width = (int(side) for side in sides)
        sigma = (self.sigma, self.sigma) if fields.is_number(self.sigma) else self.sigma
        self._set(
            kernel_size=height if height == width else (height, width),
            sigma=fields.interval(
                "GaussianBlur", "sigma", sigma, low=0, above=True, example="(0.1, 2.0)"
            ),
            p=fields.probability("GaussianBlur", self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate and sigma."""
        return 2

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

    kernel_size: tuple[int, int] = (0, 0)
    sigma: tuple[float, float] = (0.5, 3.0)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "RandomGaussianBlur"
        self._set(
            kernel_size=whole_range(name, "kernel_size", self.kernel_size, low=0, example="(3, 7)"),
            sigma=above_zero(name, "sigma", self.sigma, example="(0.5, 3.0)"),
            p=fields.probability(name, self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, sigma and the size."""
        return 3

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

    kernel_size: int | tuple[int, int] = (3, 7)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(
            kernel_size=odd_range("Blur", "kernel_size", self.kernel_size),
            p=fields.probability("Blur", self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate and the size."""
        return 2

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

    kernel_size: int | tuple[int, int] = (3, 7)
    angle: tuple[float, float] = (0.0, 360.0)
    direction: tuple[float, float] = (-1.0, 1.0)
    _: KW_ONLY
    allow_shifted: bool = True
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "MotionBlur"
        self._set(
            kernel_size=odd_range(name, "kernel_size", self.kernel_size),
            angle=fields.interval(
                name, "angle", self.angle, low=-360, high=360, example="(0, 360)"
            ),
            direction=fields.interval(
                name, "direction", self.direction, low=-1, high=1, example="(-1, 1)"
            ),
            allow_shifted=bool(self.allow_shifted),
            p=fields.probability(name, self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, the size, the angle, the direction and two shifts."""
        return 6

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``kernel``, float64 [B, k, k]: the points of the line, all alike."""
        size = odd_between(u[:, 1], self.kernel_size)[:, None]
        angle = np.deg2rad(between(u[:, 2], self.angle))[:, None]
        direction = between(u[:, 3], self.direction)[:, None]
        half, largest = size // 2, largest_of(self.kernel_size)
        first = -half * np.where(direction > 0, 1 - direction, 1)
        last = half * np.where(direction < 0, 1 + direction, 1)
        place = np.minimum(np.arange(largest), size - 1)  # the last point of a short line repeats
        t = first + place * (last - first) / np.maximum(size - 1, 1)
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
class Sharpen(Filter):
    """Blend the image with a sharpened one, and clamp to [0, 1].

    Args:
        alpha: Range of the sharpened image's weight within [0, 1].
        lightness: Range of what is added to the middle of the "kernel" method's kernel, from 0.
        method: "kernel" takes 8 times the pixel minus its eight neighbours, plus ``lightness``
            times the pixel, as the sharpened image; "gaussian" adds ``alpha`` times the difference
            to a blurred image instead.
        kernel_size: Odd width of the "gaussian" method's kernel in pixels.
        sigma: Its standard deviation in pixels, above 0.
        p: Share of the images that are changed.

    Source: Albumentations Sharpen. Of other meaning is torchvision's RandomAdjustSharpness.
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.003
    needs_unit_range: ClassVar[bool] = True
    clamps: ClassVar[bool] = True

    alpha: tuple[float, float] = (0.2, 0.5)
    lightness: tuple[float, float] = (0.5, 1.0)
    _: KW_ONLY
    method: Literal["kernel", "gaussian"] = "kernel"
    kernel_size: int = 5
    sigma: float = 1.0
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Sharpen"
        if self.method not in ("kernel", "gaussian"):
            raise fields.fault(name, "method", self.method, "'kernel' or 'gaussian'")
        if not is_odd(self.kernel_size):
            raise fields.fault(
                name, "kernel_size", self.kernel_size, "an odd whole number, such as 5"
            )
        if not fields.is_number(self.sigma) or self.sigma <= 0:
            raise fields.fault(name, "sigma", self.sigma, "a number above 0, such as 1.0")
        self._set(
            alpha=fields.interval(name, "alpha", self.alpha, low=0, high=1, example="(0.2, 0.5)"),
            lightness=fields.interval(
                name, "lightness", self.lightness, low=0, example="(0.5, 1.0)"
            ),
            kernel_size=int(self.kernel_size),
            sigma=float(self.sigma),
            p=fields.probability(name, self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, alpha and lightness."""
        return 3

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``alpha`` and, for "kernel", ``lightness``, float64 [B]."""
        drawn = {"apply": u[:, 0] < self.p, "alpha": between(u[:, 1], self.alpha)}
        if self.method == "kernel":
            drawn["lightness"] = between(u[:, 2], self.lightness)
        return drawn

    def kernel(self, params: Params) -> Kernels:
        """The blended kernel."""
        alpha = np.asarray(params["alpha"])[:, None, None]
        if self.method == "gaussian":
            [row] = gaussians(
                np.array([self.sigma]), np.array([self.kernel_size]), self.kernel_size
            )
            same = np.zeros((self.kernel_size, self.kernel_size))
            same[self.kernel_size // 2, self.kernel_size // 2] = 1
            sharp: Kernels = (1 + alpha) * same - alpha * np.outer(row, row)
            return sharp
        effect = np.full((len(alpha), 3, 3), -1.0)
        effect[:, 1, 1] = 8 + params["lightness"]
        return blended(effect, alpha)


@dataclass(frozen=True)
class Emboss(Filter):
    """Blend the image with one that is lit from the bottom right, and clamp to [0, 1].

    Args:
        alpha: Range of the embossed image's weight within [0, 1].
        strength: Range of the strength, from 0.
        p: Share of the images that are changed.

    Source: Albumentations Emboss.
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.003
    needs_unit_range: ClassVar[bool] = True
    clamps: ClassVar[bool] = True

    alpha: tuple[float, float] = (0.2, 0.5)
    strength: tuple[float, float] = (0.2, 0.7)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Emboss"
        self._set(
            alpha=fields.interval(name, "alpha", self.alpha, low=0, high=1, example="(0.2, 0.5)"),
            strength=fields.interval(name, "strength", self.strength, low=0, example="(0.2, 0.7)"),
            p=fields.probability(name, self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, alpha and strength."""
        return 3

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``alpha`` and ``strength``, float64 [B]."""
        return {
            "apply": u[:, 0] < self.p,
            "alpha": between(u[:, 1], self.alpha),
            "strength": between(u[:, 2], self.strength),
        }

    def kernel(self, params: Params) -> Kernels:
        """The blended kernel."""
        lit = np.array([[-1.0, -1, 0], [-1, 0, 1], [0, 1, 1]])
        effect = np.diag([-1.0, 1, 1]) + np.asarray(params["strength"])[:, None, None] * lit
        return blended(effect, np.asarray(params["alpha"])[:, None, None])


def blended(effect: Kernels, alpha: Kernels) -> Kernels:
    """Blend 3x3 kernels with the one that changes nothing."""
    same = np.zeros((3, 3))
    same[1, 1] = 1
    return (1 - alpha) * same + alpha * effect


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


def both(line: Kernels) -> Kernels:
    """Use the same numbers as column and as row."""
    return np.stack([line, line], axis=1)


def above_zero(
    name: str, field: str, value: Any, *, high: float = math.inf, example: str
) -> tuple[float, float]:
    """Return (smallest, largest) from 0 to ``high``, the largest above 0."""
    ends = fields.interval(name, field, value, low=0, high=high, example=example)
    if ends[1] == 0:
        raise fields.fault(name, field, value, f"a range that reaches above 0, such as {example}")
    return ends


def is_odd(value: Any) -> bool:
    """Whether ``value`` is an odd whole number of at least 1."""
    return fields.is_whole(value) and value > 0 and value % 2 == 1


def whole_range(name: str, field: str, value: Any, *, low: int, example: str) -> tuple[int, int]:
    """Return (smallest, largest) of whole numbers from ``low``; one number is both."""
    ends = (value, value) if fields.is_whole(value) else value
    if fields.is_sequence(ends, 2) and all(fields.is_whole(end) for end in ends):
        smallest, largest = int(ends[0]), int(ends[1])
        if low <= smallest <= largest:
            return smallest, largest
    raise fields.fault(
        name, field, value, f"whole numbers (smallest, largest) from {low}, such as {example}"
    )


def odd_range(name: str, field: str, value: Any) -> int | tuple[int, int]:
    """Return one odd number, or the smallest and the largest."""
    ends = (value, value) if fields.is_whole(value) else value
    if fields.is_sequence(ends, 2) and all(is_odd(end) for end in ends) and ends[0] <= ends[1]:
        return int(ends[0]) if ends[0] == ends[1] else (int(ends[0]), int(ends[1]))
    raise fields.fault(
        name, field, value, "an odd whole number or (smallest, largest) of them, such as (3, 7)"
    )


def largest_of(size: int | tuple[int, int]) -> int:
    """Return the largest size of what ``odd_range`` returned."""
    return size if isinstance(size, int) else size[1]


def odd_between(u: Uniforms, size: int | tuple[int, int]) -> Sizes:
    """Odd numbers of what ``odd_range`` returned, each equally likely."""
    low, high = (size, size) if isinstance(size, int) else size
    return low + 2 * whole_below(u, (high - low) // 2 + 1)
