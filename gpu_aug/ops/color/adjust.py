"""Operations that change tones and colors: gamma, gray, inversion, thresholds, sharpness, hue and contrast."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Random, Uniform
from gpu_aug.ops.distributions.uniform import Range
from gpu_aug.ops.operation import Operation, WithProbability

__all__ = ["CLAHE", "Gamma", "Grayscale", "HueSaturationValue", "Invert", "Sharpness", "Solarize"]


@dataclass(frozen=True)
class Gamma(Operation):
    """Raise values to a power; values below 0, which bicubic resampling can produce, count as 0.

    Args:
        gamma: The power, or its (smallest, largest) value, drawn uniformly.
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_gamma; the distribution is that of Albumentations RandomGamma, whose limits are 100 times as
    large.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    random: ClassVar[Random] = {"gamma": Uniform()}

    gamma: Annotated[
        float | Range,
        validation.OneOrTwo(low=0, above=True, example="1.5 or (0.8, 1.2)"),
    ] = (0.8, 1.2)
    _: KW_ONLY
    p: float = 0.5


@dataclass(frozen=True)
class Grayscale(WithProbability):
    """Replace the three channels by one gray with probability ``p``.

    Args:
        p: Share of the images that are changed.
        method: "weighted_average" is 0.299 R + 0.587 G + 0.114 B; "average" is the mean of the channels; "max" is the
            largest channel; "desaturation" is the mean of the largest and the smallest channel; "from_lab" is OpenCV's
            8-bit lightness.

    Source: torchvision v2 RandomGrayscale, whose first weight is 0.2989; the methods are those of
    Albumentations ToGray.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    p: float = 0.1
    method: Literal["weighted_average", "average", "desaturation", "max", "from_lab"] = (
        "weighted_average"
    )

    @property
    def rounds_to_8_bits(self) -> bool:  # type: ignore[override]
        """True for the method "from_lab", which uses OpenCV's 8-bit lightness."""
        return self.method == "from_lab"

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """True for "from_lab", which rounds to 8 bits, and "desaturation", where Albumentations clamps to [0, 1]."""
        return self.method in ("from_lab", "desaturation")


@dataclass(frozen=True)
class Invert(WithProbability):
    """Replace each value x by 1 - x with probability ``p``.

    Source: torchvision v2 RandomInvert; Pillow ImageOps.invert.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""


@dataclass(frozen=True)
class Solarize(Operation):
    """Replace each value x that is at least a threshold by 1 - x.

    Args:
        threshold: The threshold in [0, 1], or its (smallest, largest) value, drawn uniformly.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomSolarize, whose threshold is 255 times as large on uint8;
    Pillow ImageOps.solarize.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""

    random: ClassVar[Random] = {"threshold": Uniform()}

    threshold: Annotated[
        float | Range, validation.OneOrTwo(low=0, high=1, example="0.5 or (0.3, 0.7)")
    ] = 0.5
    p: float = 0.5


@dataclass(frozen=True)
class Sharpness(Operation):
    """Blend with a smoothed image: the factor 0 is smooth, 1 changes nothing, 2 is twice as sharp.

    The smoothed image is the mean of 3 x 3 pixels, in which the middle one counts five times; the outermost pixels are not
    smoothed.

    Args:
        factor: The factor, or its (smallest, largest) value, drawn uniformly.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomAdjustSharpness; Pillow ImageEnhance.Sharpness.
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    random: ClassVar[Random] = {"factor": Uniform()}

    factor: Annotated[float | Range, validation.OneOrTwo(low=0, example="2.0 or (0.5, 2.0)")] = 2.0
    p: float = 0.5


@dataclass(frozen=True)
class HueSaturationValue(Operation):
    """Shift hue, saturation and value of the image, which is rounded to 8 bits. Gray pixels stay gray.

    Args:
        hue_shift: Range of the shift of the hue, in 1/180 turns; one number ``x`` means (-x, x).
        sat_shift: Range of the shift of the saturation, in 1/255; one number ``x`` means (-x, x).
        val_shift: Range of the shift of the value, in 1/255; one number ``x`` means (-x, x).
        p: Share of the images that are changed.

    Source: Albumentations HueSaturationValue, with OpenCV's 8-bit HSV.
    """

    # Measured 1 on noise and photographs: OpenCV cuts fractions off, but rounds them in the columns
    # behind the last whole 32.
    tolerance: ClassVar[float] = 1.001
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""

    random: ClassVar[Random] = {
        "hue_shift": Uniform(),
        "sat_shift": Uniform(),
        "val_shift": Uniform(),
    }

    hue_shift: Annotated[
        float | Range, validation.Interval(low=-np.inf, around=0, example="(-20, 20)")
    ] = 20.0
    sat_shift: Annotated[
        float | Range, validation.Interval(low=-np.inf, around=0, example="(-20, 20)")
    ] = 30.0
    val_shift: Annotated[
        float | Range, validation.Interval(low=-np.inf, around=0, example="(-20, 20)")
    ] = 20.0
    _: KW_ONLY
    p: float = 0.5


def _clip_limits(operation: str, field: str, value: Any) -> tuple[float, float]:
    ends = (1.0, value) if validation.is_number(value) else value
    return validation.interval(operation, field, ends, low=1, example="4.0 or (1.0, 4.0)")


@dataclass(frozen=True)
class CLAHE(Operation):
    """Equalize the lightness tile by tile, with limited contrast, in 8 bits.

    OpenCV does this on the CPU, even if the images are on a GPU.

    Args:
        clip_limit: Range of OpenCV's clip limit, from 1; one number ``x`` means (1, x).
        tile_grid_size: Number of tiles (across, down).
        p: Share of the images that are changed.

    Source: Albumentations CLAHE.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0: both call OpenCV.
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True
    moves_pixels_only: ClassVar[bool] = True
    """8-bit values stay 8-bit values."""

    random: ClassVar[Random] = {"clip_limit": Uniform()}

    clip_limit: Annotated[float | Range, _clip_limits] = 4.0
    tile_grid_size: Annotated[tuple[int, int], validation.height_width] = (8, 8)
    _: KW_ONLY
    p: float = 0.5
