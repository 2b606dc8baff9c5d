"""Operations that add noise. The host draws a key per image, from which the device generates the noise."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import normal_field, uniform_field
from gpu_aug.upload import upload

__all__ = ["AdditiveNoise", "GaussNoise", "GaussianNoise", "MultiplicativeNoise", "Noise"]

Size = tuple[int, int]


class Noise(Operation, abstract=True):
    """Base of operations that add random noise to the image, or multiply the image by it.

    The drawn parameter ``key``, uint32 [B, 2], determines the noise.

    Attributes:
        multiplies: Whether the image is multiplied by the noise; if False, the noise is added.
        clamps: Whether the result is clamped to [0, 1].
    """

    multiplies: ClassVar[bool] = False

    clamps: ClassVar[bool] = True
    """Always, unless a subclass says otherwise."""

    @abstractmethod
    def field(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return the noise, float32 [B, 1 or 3, H or 1, W or 1], on ``device`` without waiting for it.

        Args:
            params: Parameters that ``draw`` returned, or rows of them.
            size: Height and width of the images.
            device: Device of the result. The values are equal on all devices but for rounding.
        """


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Add normally distributed noise to every value.

    Args:
        mean: Mean of the noise, for values in [0, 1].
        sigma: Standard deviation of the noise, from 0.
        clip: Whether the result is clamped to [0, 1].
        p: Share of the images that are changed.

    Source: torchvision v2 GaussianNoise on floating-point images; ``p`` is torchvision's
    RandomApply around it.

    Example:
        >>> image = np.full((8, 8, 3), 128, np.uint8)
        >>> [first], [second] = (apply(Recipe([GaussianNoise(p=1.0)]), [{"image": image}], seed=0) for _ in range(2))
        >>> bool((first["image"] == second["image"]).all())
        True
    """

    # Measured 0 on noise and photographs; devices differ by rounding.
    tolerance: ClassVar[float] = 0.001

    random: ClassVar[Random] = {"key": Key()}

    mean: Annotated[float, validation.number] = 0.0
    sigma: Annotated[float, validation.Number(low=0, example="0.1")] = 0.1
    clip: bool = True
    _: KW_ONLY
    p: float = 1.0

    @property
    def clamps(self) -> bool:  # type: ignore[override]
        """Whether the result is clamped to [0, 1]: the field ``clip``."""
        return self.clip

    def field(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return normal noise, float32 [B, 3, H, W]."""
        return normal_field(params["key"], (3, *size), device).mul_(self.sigma).add_(self.mean)


@dataclass(frozen=True)
class GaussNoise(Noise):
    """Add normally distributed noise of random strength, and clamp to [0, 1].

    Args:
        std_range: Range of the standard deviation, within [0, 1].
        mean_range: Range of the mean, within [-1, 1].
        per_channel: Whether each channel gets its own noise; if False, all channels get equal noise.
        noise_scale_factor: Share of the image's height and width at which the noise is generated; it is then enlarged
            bilinearly, which makes it coarse.
        p: Share of the images that are changed.

    Source: Albumentations GaussNoise.
    """

    # Measured 0 on noise and photographs; devices differ by rounding.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "key": Key(),
        "std": Uniform("std_range"),
        "mean": Uniform("mean_range"),
    }

    std_range: Annotated[Range, validation.Interval(low=0, high=1, example="(0.2, 0.44)")] = (
        0.2,
        0.44,
    )
    mean_range: Annotated[Range, validation.Interval(low=-1, high=1, example="(0.0, 0.0)")] = (
        0.0,
        0.0,
    )
    per_channel: bool = True
    noise_scale_factor: Annotated[float, validation.Number(low=0, high=1, example="0.5")] = 1.0
    _: KW_ONLY
    p: float = 0.5

    def field(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return normal noise, float32 [B, 1 or 3, H, W]."""
        shape = (3 if self.per_channel else 1, *reduced(size, self.noise_scale_factor))
        field = normal_field(params["key"], shape, device)
        return enlarged(scaled(field, params["std"], params["mean"]), size)


@dataclass(frozen=True)
class AdditiveNoise(Noise):
    """Add noise of a chosen distribution, and clamp to [0, 1].

    Args:
        noise_type: Distribution: "uniform", "gaussian" or "laplace".
        spatial_mode: What is drawn: one number per channel ("constant"), per value ("per_pixel"), or per pixel for all channels
            ("shared").
        ranges: For "uniform", (smallest, largest) of the noise: one pair, or with "constant" one per channel.
        mean_range: For "gaussian" and "laplace", the range of the mean.
        scale_range: For "gaussian" the range of the standard deviation, for "laplace" of the scale, from 0.
        approximation: Share of the image's height and width at which the noise is generated; see GaussNoise.
        p: Share of the images that are changed.

    Source: Albumentations AdditiveNoise (noise_params).
    """

    # Measured 0 on noise and photographs; devices differ by rounding.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "key": Key(),
        "scale": Uniform("scale_range"),
        "mean": Uniform("mean_range"),
    }

    noise_type: Literal["uniform", "gaussian", "laplace"] = "uniform"
    spatial_mode: Literal["constant", "per_pixel", "shared"] = "constant"
    _: KW_ONLY
    ranges: Sequence[tuple[float, float]] = ((-0.1, 0.1),)
    mean_range: Annotated[Range, validation.Interval(low=-math.inf, example="(0.0, 0.0)")] = (
        0.0,
        0.0,
    )
    scale_range: Annotated[Range, validation.Interval(low=0, example="(0.05, 0.15)")] = (0.05, 0.15)
    approximation: Annotated[float, validation.Number(low=0, high=1, example="0.5")] = 1.0
    p: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        name, ranges = "AdditiveNoise", self.ranges
        if not validation.is_sequence(ranges, 1) and not (
            validation.is_sequence(ranges, 3) and self.spatial_mode == "constant"
        ):
            raise validation.fault(
                name, "ranges", ranges, "one range, or for 'constant' three, as ((-0.1, 0.1),)"
            )
        self._set(
            ranges=tuple(
                validation.interval(name, "ranges", ends, low=-math.inf, example="(-0.1, 0.1)")
                for ends in ranges
            )
        )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``key``, uint32 [B, 2], and, unless the noise is "uniform", ``scale`` and ``mean``, float64 [B]."""
        return {"key": drawn["key"]} if self.noise_type == "uniform" else drawn

    def field(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return noise of the chosen distribution, float32 [B, 1 or 3, H or 1, W or 1]."""
        if self.spatial_mode == "constant":
            shape = (3, 1, 1)
        else:
            channels = 1 if self.spatial_mode == "shared" else 3
            shape = (channels, *reduced(size, self.approximation))
        if self.noise_type == "uniform":
            low, high = upload(np.array(self.ranges, np.float32), device).T[:, :, None, None]
            field = uniform_field(params["key"], shape, device) * (high - low) + low
        elif self.noise_type == "gaussian":
            field = scaled(
                normal_field(params["key"], shape, device), params["scale"], params["mean"]
            )
        else:
            # Half a step more than the uniform number is never 0, 1/2 or 1, and exact in float32.
            centred = uniform_field(params["key"], shape, device).sub_(0.5).add_(2.0**-25)
            laplace = centred.sign() * centred.abs().mul_(-2).log1p_().neg_()
            field = scaled(laplace, params["scale"], params["mean"])
        return field if self.spatial_mode == "constant" else enlarged(field, size)


@dataclass(frozen=True)
class MultiplicativeNoise(Noise):
    """Multiply by random numbers, and clamp to [0, 1].

    Args:
        multiplier: Range of the numbers, from 0.
        per_channel: Whether each channel gets its own numbers; if False, all channels get equal numbers.
        elementwise: Whether each pixel gets its own number; if False, all pixels get one number.
        p: Share of the images that are changed.

    Source: Albumentations MultiplicativeNoise.
    """

    # Measured 0 on noise and photographs; devices differ by rounding.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    multiplies: ClassVar[bool] = True

    random: ClassVar[Random] = {"key": Key()}

    multiplier: Annotated[Range, validation.Interval(low=0, example="(0.9, 1.1)")] = (0.9, 1.1)
    per_channel: bool = False
    elementwise: bool = False
    _: KW_ONLY
    p: float = 0.5

    def field(self, params: Params, size: Size, device: torch.device) -> Tensor:
        """Return uniform factors, float32 [B, 1 or 3, H or 1, W or 1]."""
        shape = (3 if self.per_channel else 1, *(size if self.elementwise else (1, 1)))
        low, high = self.multiplier
        return uniform_field(params["key"], shape, device).mul_(high - low).add_(low)


def scaled(field: Tensor, scale: Uniforms, mean: Uniforms) -> Tensor:
    """Return fields [B, C, H, W] multiplied by ``scale`` and shifted by ``mean``, which have one number per field; in place."""
    factor, shift = (
        upload(values.astype(np.float32), field.device)[:, None, None, None]
        for values in (scale, mean)
    )
    return field.mul_(factor).add_(shift)


def reduced(size: Size, factor: float) -> Size:
    """Return the size at which noise is generated before it is enlarged to ``size``."""
    return max(1, int(size[0] * factor)), max(1, int(size[1] * factor))


def enlarged(field: Tensor, size: Size) -> Tensor:
    """Return fields [B, C, h, w] enlarged bilinearly to ``size``."""
    if field.shape[2:] == torch.Size(size):
        return field
    return F.interpolate(field, size, mode="bilinear", align_corners=False)
