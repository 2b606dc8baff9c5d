"""Operations that imitate the noise and the dirt of a camera: dead pixels, counted photons, drops on the lens.

As in noise/noise.py, the host draws a key per image, from which the device generates the noise.
"""

import math
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import Sampling, whole_range
from gpu_aug.ops.distributions.columns import Drawn, Integer, Key, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.noise.noise import Size
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import normal_field, uniform_field
from gpu_aug.upload import upload

__all__ = ["ISONoise", "SaltAndPepper", "ShotNoise", "Spatter", "Superpixels"]


@dataclass(frozen=True)
class SaltAndPepper(Operation):
    """Make a share of the pixels white or black.

    Args:
        amount: Range of the share of the pixels that are changed.
        salt_vs_pepper: Range of the share of the changed pixels that become white.
        p: Share of the images that are changed.

    Source: Albumentations SaltAndPepper.
    """

    # Measured 0: the same pixels.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: the new values are 0 and 1."""

    random: ClassVar[Random] = {"key": Key(), "amount": Uniform(), "salt_vs_pepper": Uniform()}

    amount: Annotated[Range, validation.Interval(low=0, high=1, example="(0.01, 0.06)")] = (
        0.01,
        0.06,
    )
    salt_vs_pepper: Annotated[Range, validation.Interval(low=0, high=1, example="(0.01, 0.06)")] = (
        0.4,
        0.6,
    )
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``key``, uint32 [B, 2], ``num_changed`` and ``num_salt``, int64 [B].

        These are the key of the random order, the number of changed pixels and the number of white ones.
        """
        num = (sizes.prod(axis=1) * drawn["amount"]).astype(np.int64)
        return {
            "key": drawn["key"],
            "num_changed": num,
            "num_salt": (num * drawn["salt_vs_pepper"]).astype(np.int64),
        }

    def order(self, params: Params, size: Size, device: torch.device, count: int) -> Tensor:
        """Return the first ``count`` pixels of a random order, int64 [B, count]: their indices among all H * W.

        The first ones become white, the next ones black.
        """
        field = uniform_field(params["key"], (math.prod(size),), device)
        if device.type != "cpu":
            return field.argsort(dim=1, stable=True)[:, :count]
        return torch.from_numpy(np.stack([_smallest(numbers, count) for numbers in field.numpy()]))

    def ranks(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return the rank of each pixel in the random order, int64 [B, 1, H, W]."""
        order = self.order(params, size, device, math.prod(size))
        ranks = torch.arange(order.shape[1], device=device).expand_as(order)
        return torch.empty_like(order).scatter_(1, order, ranks).view(-1, 1, *size)


def _smallest(numbers: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the indices of the smallest of N uniform numbers in ascending order; of equal numbers the first comes first."""
    last = min(count, len(numbers) - 1)
    chosen = np.flatnonzero(numbers <= np.partition(numbers, last)[last])
    # Sorting whole numbers with their indices in them takes a tenth of the time of a stable sort.
    whole = (numbers[chosen] * 2.0**24).astype(np.int64) << 32 | chosen
    whole.sort()
    return whole[:count] & 0xFFFFFFFF


@dataclass(frozen=True)
class ISONoise(Operation):
    """Add the noise of a camera sensor to hue and lightness.

    In HLS, hue is shifted by normal numbers, and lightness x by (1 - x) times ``intensity`` times Poisson numbers,
    whose mean grows
    with the variation of lightness in the image. Hue wraps around; in Albumentations, on OpenCV's vector code, a negative hue
    becomes a colour out of range instead, which differs by 0.1 / 255.

    Args:
        color_shift: Range of the standard deviation of hue, in degrees per unit of intensity, within [0, 1].
        intensity: Range of the strength, from 0.
        p: Share of the images that are changed.

    Source: Albumentations ISONoise.
    """

    # Measured 0.0003 on noise and photographs. Where the lightness's deviation is rounded otherwise, a
    # photon more or less may be counted.
    tolerance: ClassVar[float] = 0.002
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {"key": Key(), "color_shift": Uniform(), "intensity": Uniform()}

    color_shift: Annotated[Range, validation.Interval(low=0, high=1, example="(0.01, 0.05)")] = (
        0.01,
        0.05,
    )
    intensity: Annotated[Range, validation.Interval(low=0, high=100, example="(0.1, 0.5)")] = (
        0.1,
        0.5,
    )
    _: KW_ONLY
    p: float = 0.5

    def hue_noise(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return the noise added to hue, in degrees, float32 [B, H, W]."""
        field = normal_field(params["key"], size, device, stream=1)
        return (
            field
            * upload((params["color_shift"] * params["intensity"]).astype(np.float32), device)[
                :, None, None
            ]
        )

    def lightness_dice(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return the uniform numbers that become Poisson numbers, float32 [B, H, W]."""
        return uniform_field(params["key"], size, device)

    @property
    def largest_rate(self) -> float:
        """Largest possible mean of the Poisson numbers: the deviation of lightness is at most 1/2."""
        return 0.5 * self.intensity[1]


@dataclass(frozen=True)
class ShotNoise(Operation):
    """Replace each value by a random one that a camera would get by counting photons in linear light.

    A value x becomes (scale * Poisson(x**2.2 / scale)) ** (1 / 2.2), clamped to [0, 1].

    Args:
        scale_range: Range of the brightness of one photon, from 0.002.
        p: Share of the images that are changed.

    Source: Albumentations ShotNoise.
    """

    # Measured 0.00003 on noise and photographs. Where rounding before this operation moves a value across
    # a threshold, one photon more or less is counted.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {"key": Key(), "scale": Uniform("scale_range")}

    scale_range: Annotated[Range, validation.Interval(low=0.002, example="(0.1, 0.3)")] = (0.1, 0.3)
    _: KW_ONLY
    p: float = 0.5

    def dice(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return the uniform numbers that become Poisson numbers, float32 [B, 3, H, W]."""
        return uniform_field(params["key"], (3, *size), device)


# Ranges of Spatter, in the order of their uniform numbers.
_SPATTERED = ("mean", "std", "gauss_sigma", "cutout_threshold", "intensity")


Share = Annotated[Range, validation.Interval(low=0, high=1, example="(0.6, 0.6)")]


@dataclass(frozen=True)
class Spatter(Operation):
    """Spatter rain or mud on the lens; it runs on the CPU in every engine.

    Args:
        mean: Range, within [0, 1], of the mean of the normal noise that becomes the liquid.
        std: Range, within [0, 1], of the standard deviation of that noise.
        gauss_sigma: Range of the standard deviation of the blur of that noise, in pixels.
        cutout_threshold: Range, within [0, 1], of the threshold: blurred noise below it becomes no liquid.
        intensity: Range, within [0, 1], of the strength.
        mode: The liquid, "rain" or "mud".
        color: Colour of the liquid, three numbers in [0, 1]; None means light blue for rain and brown for mud.
        p: Share of the images that are changed.

    Source: Albumentations Spatter.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {"key": Key(), **{name: Uniform() for name in _SPATTERED}}

    mean: Share = (0.65, 0.65)
    std: Share = (0.3, 0.3)
    gauss_sigma: Annotated[Range, validation.Interval(low=0, example="(0.6, 0.6)")] = (2.0, 2.0)
    cutout_threshold: Share = (0.68, 0.68)
    intensity: Share = (0.6, 0.6)
    _: KW_ONLY
    mode: Literal["rain", "mud"] = "rain"
    color: Annotated[
        tuple[float, float, float] | None,
        validation.optional(partial(validation.numbers, count=3, example="(0.1, 0.2, 0.2)")),
    ] = None
    p: float = 0.5


@dataclass(frozen=True)
class Superpixels(Operation):
    """Replace some segments of the image by their mean, in 8 bits; it runs on the CPU in every engine.

    Args:
        p_replace: Range of the probability that a segment is replaced.
        n_segments: Smallest and largest number of segments, approximately.
        max_size: Length of the longer side at which larger images are segmented; None means their full size.
        sampling: Interpolation for that resize.
        p: Share of the images that are changed.

    Source: Albumentations Superpixels.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "share": Uniform("p_replace"),
        "num_segments": Integer("n_segments"),
        "dice": Numbers(lambda self: self.n_segments[1]),
    }

    p_replace: Annotated[Range, validation.Interval(low=0, high=1, example="(0.0, 0.1)")] = (
        0.0,
        0.1,
    )
    n_segments: Annotated[tuple[int, int], partial(whole_range, low=1, example="(100, 100)")] = (
        100,
        100,
    )
    _: KW_ONLY
    max_size: Annotated[
        int | None, validation.optional(validation.Integer(low=1, example="128"))
    ] = 128
    sampling: Sampling = "bilinear"
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``num_segments``, int64 [B], and which segments are replaced, ``replace``, bool [B, largest n_segments]."""
        return {
            "num_segments": drawn["num_segments"],
            "replace": drawn["dice"] < drawn["share"][:, None],
        }
