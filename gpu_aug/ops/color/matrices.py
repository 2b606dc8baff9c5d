"""Operations that apply one 3x4 matrix to the channels of each image."""

import math
from dataclasses import KW_ONLY, dataclass
from itertools import permutations
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import (
    Range,
    Sizes,
    Uniforms,
    orders,
    whole_below,
)
from gpu_aug.ops.operation import Operation, WithProbability

__all__ = [
    "ChannelDropout",
    "ChannelShuffle",
    "RGBShift",
    "RandomBrightnessContrast",
    "ToSepia",
]

# All orders of the channels, as matrices.
_SHUFFLES = np.eye(3)[np.array(list(permutations(range(3))))]
# Source: Albumentations ToSepia.
_SEPIA = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])


class Statistics(NamedTuple):
    """Statistics of the values of each image, float64 on the device of the images."""

    mean: Tensor
    """[n, 3], per channel."""

    covariance: Tensor
    """[n, 3, 3], of the channels; divided by the number of pixels."""

    low: Tensor
    """[n, 3], the smallest value per channel."""

    high: Tensor
    """[n, 3], the largest value per channel."""

    num_pixels: int
    """In each image."""


class ColorMatrix(Operation, abstract=True):
    """Base of operations that multiply (red, green, blue, 1) by a matrix and clamp the result to ``limits``.

    The drawn parameter is ``matrix``, float64 [B, 3, 4], unless ``reads_image``.
    """

    # Measured 0.00003 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    """What the result is clamped to."""

    reads_image: ClassVar[bool] = False
    """Whether ``image_matrices`` makes the matrices, from the images themselves."""

    def image_matrices(self, params: dict[str, Tensor], images: Statistics) -> Tensor:
        """Return the matrices of n images, float64 [n, 3, 4], computed from their statistics and the drawn parameters.

        Only operations with ``reads_image`` have it. The parameters lie on the device of the images.
        """
        raise NotImplementedError


def symmetric(
    operation: str, field: str, value: float | tuple[float, float]
) -> tuple[float, float]:
    """Check a range, given as (smallest, largest) or as one number ``x`` for (-x, x); return (smallest, largest)."""
    return validation.interval(
        operation, field, value, low=-np.inf, around=0, example="0.2 or (-0.2, 0.2)"
    )


@dataclass(frozen=True)
class RandomBrightnessContrast(ColorMatrix):
    """Multiply values by a factor (contrast) and add a number (brightness).

    Args:
        brightness_limit: Range of the number that is added, within [-1, 1], as a share of the full range of values; one number
            ``x`` means (-x, x).
        contrast_limit: Range of the factor minus 1; one number ``x`` means (-x, x).
        brightness_by_max: Whether brightness is a share of the full range; if False, it is a share of the image's mean.
        ensure_safe_range: Whether factor and number are reduced such that no value leaves [0, 1].
        p: Share of the images that are changed.

    Source: Albumentations RandomBrightnessContrast.
    """

    random: ClassVar[Random] = {
        "alpha": Uniform("contrast_limit"),
        "beta": Uniform("brightness_limit"),
    }

    brightness_limit: Annotated[float | Range, symmetric] = 0.2
    contrast_limit: Annotated[float | Range, symmetric] = 0.2
    _: KW_ONLY
    brightness_by_max: bool = True
    ensure_safe_range: bool = False
    p: float = 0.5

    @property
    def reads_image(self) -> bool:  # type: ignore[override]
        """True if brightness is a share of the image's mean."""
        return not self.brightness_by_max

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, or ``alpha`` and ``beta``, float64 [B], if brightness is a share of the image's mean."""
        alpha, beta = 1 + drawn["alpha"], drawn["beta"]
        if self.reads_image:
            return {"alpha": alpha, "beta": beta}
        numbers = torch.from_numpy(alpha), torch.from_numpy(beta)
        return {"matrix": self._matrices(*numbers).numpy()}

    def image_matrices(self, params: dict[str, Tensor], images: Statistics) -> Tensor:
        """Return the matrices, float64 [n, 3, 4], with brightness as a share of the mean of all values."""
        return self._matrices(params["alpha"], params["beta"] * images.mean.mean(dim=1))

    def _matrices(self, alpha: Tensor, beta: Tensor) -> Tensor:
        if self.ensure_safe_range:
            positive = alpha > 0
            beta = torch.where(positive, beta.clamp(0, 1), beta.clamp(max=1))
            alpha = torch.where(
                positive, torch.minimum(alpha, 1 - beta), torch.maximum(alpha, -beta)
            )
        eye = torch.eye(3, dtype=alpha.dtype, device=alpha.device)
        return torch.cat([alpha[:, None, None] * eye, beta[:, None, None].expand(-1, 3, 1)], dim=2)


@dataclass(frozen=True)
class RGBShift(ColorMatrix):
    """Add a random number to each channel.

    Args:
        r_shift: Range of the number added to red, for values in [0, 1]; one number ``x`` means (-x, x).
        g_shift: Range of the number added to green, given like ``r_shift``.
        b_shift: Range of the number added to blue, given like ``r_shift``.
        p: Share of the images that are changed.

    Source: Albumentations RGBShift, whose limits may be 255 times as large.
    """

    random: ClassVar[Random] = {"r_shift": Uniform(), "g_shift": Uniform(), "b_shift": Uniform()}

    r_shift: Annotated[float | Range, symmetric] = 20 / 255
    g_shift: Annotated[float | Range, symmetric] = 20 / 255
    b_shift: Annotated[float | Range, symmetric] = 20 / 255
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 4], which adds the three drawn shifts."""
        matrix = plain_matrices(len(sizes))
        for channel, shift in enumerate(drawn.values()):
            matrix[:, channel, 3] = shift
        return {"matrix": matrix}


@dataclass(frozen=True)
class ChannelShuffle(ColorMatrix):
    """Reorder the channels, with each of the six orders equally likely, with probability ``p``.

    Source: torchvision v2 RandomChannelPermutation.
    """

    random: ClassVar[Random] = {"order": Numbers()}

    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 4]: a permutation of the channels."""
        matrix = plain_matrices(len(sizes))
        matrix[:, :, :3] = _SHUFFLES[whole_below(drawn["order"], len(_SHUFFLES))]
        return {"matrix": matrix}


@dataclass(frozen=True)
class ChannelDropout(ColorMatrix):
    """Fill one or two random channels with a value.

    Args:
        num_channels: Number of channels that are filled, or its (smallest, largest) value, both included.
        fill: Value of the filled channels, in [0, 1].
        p: Share of the images that are changed.

    Source: Albumentations ChannelDropout.
    """

    random: ClassVar[Random] = {"number": Integer("num_channels"), "order": Numbers(3)}

    num_channels: Annotated[
        int | tuple[int, int], validation.IntegerRange(low=1, high=2, example="(1, 2)")
    ] = 1
    _: KW_ONLY
    fill: Annotated[float, validation.Number(low=0, high=1, example="0.0")] = 0.0
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``matrix``, float64 [B, 3, 4], which fills the drawn channels."""
        rank = orders(orders(drawn["order"]).astype(np.float64))
        dropped = rank < drawn["number"][:, None]
        matrix = plain_matrices(len(sizes)) * ~dropped[:, :, None]
        matrix[:, :, 3] = dropped * self.fill
        return {"matrix": matrix}


@dataclass(frozen=True)
class ToSepia(ColorMatrix, WithProbability):
    """Replace colours by brown tones with probability ``p``.

    Source: Albumentations ToSepia.
    """

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        matrix = plain_matrices(len(sizes))
        matrix[:, :, :3] = _SEPIA
        return {"matrix": matrix}


def plain_matrices(num: int) -> NDArray[np.float64]:
    """Return ``num`` matrices, float64 [num, 3, 4], that leave images unchanged."""
    return np.tile(np.eye(3, 4), (num, 1, 1))


def normals(u: Uniforms) -> Uniforms:
    """Return standard normal numbers, float64 [B, n], made from as many uniform numbers; n must be even.

    Source: Box and Muller, 1958.
    """
    radius = np.sqrt(-2 * np.log1p(-u[:, 0::2]))
    angle = 2 * math.pi * u[:, 1::2]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
