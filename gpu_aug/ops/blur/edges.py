"""Operations that sharpen or emboss edges, or add rings to them."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import (
    Filter,
    Kernels,
    above_zero,
    gaussians,
    largest_of,
    odd,
    odd_between,
    odd_range,
    within,
)
from gpu_aug.ops.distributions.columns import Drawn, Law, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.operation import Operation

__all__ = ["Emboss", "RingingOvershoot", "Sharpen", "UnsharpMask"]

THRESHOLD_MARGIN = 0.001
"""What a difference has to exceed UnsharpMask's threshold by, in 1/255: rounding decides nothing."""


@dataclass(frozen=True)
class Sharpen(Filter):
    """Blend the image with a sharpened one, and clamp to [0, 1].

    Args:
        alpha: Range, within [0, 1], of the weight of the sharpened image.
        lightness: Range, from 0, of the extra weight of the central pixel for the method "kernel".
        method: "kernel" sharpens with 8 times the pixel minus its eight neighbours, plus ``lightness`` times the pixel;
            "gaussian" adds ``alpha`` times the difference between the image and a blurred image.
        kernel_size: Odd width of the blur kernel in pixels for the method "gaussian".
        sigma: Standard deviation of the blur in pixels, above 0, for the method "gaussian".
        p: Share of the images that are changed.

    Source: Albumentations Sharpen. torchvision's RandomAdjustSharpness is another operation; see Sharpness.
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.003
    needs_unit_range: ClassVar[bool] = True
    clamps: ClassVar[bool] = True

    random: ClassVar[Random] = {"alpha": Uniform(), "lightness": Uniform()}

    alpha: Annotated[Range, validation.Interval(low=0, high=1, example="(0.2, 0.5)")] = (0.2, 0.5)
    lightness: Annotated[Range, validation.Interval(low=0, example="(0.5, 1.0)")] = (0.5, 1.0)
    _: KW_ONLY
    method: Literal["kernel", "gaussian"] = "kernel"
    kernel_size: Annotated[int, odd] = 5
    sigma: Annotated[float, validation.Number(low=0, above=True, example="1.0")] = 1.0
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``alpha`` and, for the method "kernel", ``lightness``, float64 [B]."""
        if self.method == "gaussian":
            return {"alpha": drawn["alpha"]}
        return drawn

    def kernel(self, params: Params) -> Kernels:
        """Return the kernels that blend the image with the sharpened one, float64 [B, k, k]."""
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
    """Blend the image with an embossed one, lit from the bottom right, and clamp to [0, 1].

    Args:
        alpha: Range, within [0, 1], of the weight of the embossed image.
        strength: Range of the strength of the embossing, from 0.
        p: Share of the images that are changed.

    Source: Albumentations Emboss.
    """

    # Measured 0.0002 on noise and photographs.
    tolerance: ClassVar[float] = 0.003
    needs_unit_range: ClassVar[bool] = True
    clamps: ClassVar[bool] = True

    random: ClassVar[Random] = {"alpha": Uniform(), "strength": Uniform()}

    alpha: Annotated[Range, validation.Interval(low=0, high=1, example="(0.2, 0.5)")] = (0.2, 0.5)
    strength: Annotated[Range, validation.Interval(low=0, example="(0.2, 0.7)")] = (0.2, 0.7)
    _: KW_ONLY
    p: float = 0.5

    def kernel(self, params: Params) -> Kernels:
        """Return the kernels that blend the image with the embossed one, float64 [B, 3, 3]."""
        lit = np.array([[-1.0, -1, 0], [-1, 0, 1], [0, 1, 1]])
        effect = np.diag([-1.0, 1, 1]) + np.asarray(params["strength"])[:, None, None] * lit
        return blended(effect, np.asarray(params["alpha"])[:, None, None])


@dataclass(frozen=True)
class UnsharpMask(Operation):
    """Sharpen by adding a share of the difference between the image and a blurred one, where that difference is large.

    Args:
        kernel_size: Odd width of the Gaussian kernel in pixels, or its smallest and largest value.
        sigma: Range of the standard deviation in pixels; 0 lets OpenCV derive it from the kernel size.
        alpha: Range, within [0, 1], of the share of the difference that is added.
        threshold: Smallest difference that counts as large, in 1/255. The mask of large differences is blurred too, and
            blends the sharpened image with the original.
        p: Share of the images that are changed.

    Source: Albumentations UnsharpMask (blur_limit, sigma_limit). A difference must exceed the threshold by 0.001 / 255, so that
    rounding errors do not decide.
    """

    # Measured 0.00003 on noise and photographs.
    tolerance: ClassVar[float] = 0.003
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "size": Law(odd_between, "kernel_size"),
        "sigma": Uniform(),
        "alpha": Uniform(),
    }

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    sigma: Annotated[Range, validation.Interval(low=0, example="(0.5, 2.0)")] = (0.0, 0.0)
    _: KW_ONLY
    alpha: Annotated[Range, validation.Interval(low=0, high=1, example="(0.2, 0.5)")] = (0.2, 0.5)
    threshold: Annotated[float, validation.Number(low=0, high=255, example="10")] = 10.0
    p: float = 0.5

    def kernel(self, params: Params) -> Kernels:
        """Return the Gaussian of each image as column and row, float64 [B, 2, k]."""
        import cv2

        largest = largest_of(self.kernel_size)
        kernel = np.zeros((len(params["size"]), 2, largest))
        for row, (size, sigma) in enumerate(zip(params["size"], params["sigma"], strict=True)):
            margin = (largest - size) // 2
            taps = cv2.getGaussianKernel(int(size), float(sigma)).ravel()
            kernel[row, :, margin : margin + size] = taps
        return kernel


@dataclass(frozen=True)
class RingingOvershoot(Filter):
    """Apply a sharp low-pass filter, which adds rings to edges, and clamp to [0, 1].

    Args:
        kernel_size: Odd width of the kernel in pixels, or its smallest and largest value, odd too.
        cutoff: Range of the frequency above which everything is removed, in radians per pixel, up to pi.
        p: Share of the images that are changed.

    Source: Albumentations RingingOvershoot (blur_limit).
    """

    # Measured 0.0003 on noise and photographs.
    tolerance: ClassVar[float] = 0.002
    needs_unit_range: ClassVar[bool] = True
    clamps: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "size": Law(odd_between, "kernel_size"),
        "cutoff": Uniform(at_least=1e-6),
    }

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (7, 15)
    cutoff: Annotated[Range, partial(above_zero, high=np.pi, example="(0.8, 1.6)")] = (
        np.pi / 4,
        np.pi / 2,
    )
    _: KW_ONLY
    p: float = 0.5

    def kernel(self, params: Params) -> Kernels:
        """Return the kernels J1(cutoff r) cutoff / (2 pi r), normalised, float64 [B, k, k]; J1 is a Bessel function."""
        largest = largest_of(self.kernel_size)
        y, x = np.mgrid[:largest, :largest] - largest // 2
        radius = np.hypot(y, x)
        radius[largest // 2, largest // 2] = 1
        cutoff = np.asarray(params["cutoff"])[:, None, None]
        bessel = torch.special.bessel_j1(torch.from_numpy(cutoff * radius)).numpy()
        kernel = cutoff * bessel / (2 * np.pi * radius)
        kernel[:, largest // 2, largest // 2] = cutoff[:, 0, 0] ** 2 / (4 * np.pi)
        inside = within(np.asarray(params["size"]), largest)
        kernel *= inside[:, :, None] * inside[:, None, :]
        normal: Kernels = kernel / kernel.sum(axis=(1, 2), keepdims=True)
        return normal


def blended(effect: Kernels, alpha: Kernels) -> Kernels:
    """Return 3x3 kernels that blend the image (weight 1 - ``alpha``) with the effect of the kernels ``effect``."""
    same = np.zeros((3, 3))
    same[1, 1] = 1
    return (1 - alpha) * same + alpha * effect
