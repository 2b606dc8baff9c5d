"""Operations that change values and leave pixels where they are."""

from dataclasses import KW_ONLY, dataclass
from itertools import permutations
from typing import ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.combine import Combinator, Gates
from gpu_aug.ops.fields import probability
from gpu_aug.ops.matrices import ChannelShuffle
from gpu_aug.ops.operation import Gated, Operation
from gpu_aug.ops.sampling import Sizes, Uniforms, between, whole_below

__all__ = [
    "CLAHE",
    "Brightness",
    "ColorJitter",
    "Contrast",
    "Gamma",
    "Grayscale",
    "Hue",
    "HueSaturationValue",
    "Invert",
    "Normalize",
    "RandomPhotometricDistort",
    "Saturation",
    "Sharpness",
    "Solarize",
    "ToDtype",
]

FACTORS = ("brightness", "contrast", "saturation", "hue")
_ORDERS = np.array(list(permutations(range(4))), np.int64)

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

GRAY_METHODS = ("weighted_average", "average", "desaturation", "max", "from_lab")


@dataclass(frozen=True)
class ColorJitter(Operation):
    """Change brightness, contrast, saturation and hue in an order drawn per image.

    Brightness multiplies; contrast and saturation blend with the mean gray and with the gray
    image; hue is a shift in turns. Every step but hue clamps to [0, 1].

    Args:
        brightness: Range of the factor; one number ``x`` is (max(0, 1 - x), 1 + x).
        contrast: As ``brightness``.
        saturation: As ``brightness``.
        hue: Range of the shift within [-0.5, 0.5]; one number ``x`` is (-x, x).
        p: Share of the images that are changed.

    Source: torchvision v2 ColorJitter (gray is 0.299 R + 0.587 G + 0.114 B in the engines,
    0.2989 R in torchvision); ``p`` is torchvision's RandomApply around it.
    """

    # Measured 0.001 on noise and photographs at the widest factors.
    tolerance: ClassVar[float] = 0.01
    needs_unit_range: ClassVar[bool] = True

    brightness: float | tuple[float, float] = 0.0
    contrast: float | tuple[float, float] = 0.0
    saturation: float | tuple[float, float] = 0.0
    hue: float | tuple[float, float] = 0.0
    _: KW_ONLY
    p: float = 1.0

    def __post_init__(self) -> None:
        name = "ColorJitter"
        for factor in FACTORS[:3]:
            self._set(**{factor: _factor(name, factor, getattr(self, factor))})
        self._set(hue=_turns(name, self.hue), p=probability(name, self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate, four factors, one of 24 orders."""
        return 6

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw four factors, float64 [B], and ``order``, int64 [B, 4] of indices into FACTORS."""
        factors = {
            name: between(u[:, 1 + place], getattr(self, name))
            for place, name in enumerate(FACTORS)
        }
        order = _ORDERS[whole_below(u[:, 5], len(_ORDERS))]
        return {"apply": u[:, 0] < self.p, **factors, "order": order}


class JitterStep(Operation, abstract=True):
    """One of the four steps of ColorJitter. Its draw has ``factor``, float64 [B]."""

    tolerance: ClassVar[float] = ColorJitter.tolerance
    needs_unit_range: ClassVar[bool] = True

    step: ClassVar[str]
    """Which of FACTORS."""

    factor: float | tuple[float, float]
    p: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        ends = (
            _turns(name, self.factor)
            if self.step == "hue"
            else _factor(name, "factor", self.factor)
        )
        self._set(factor=ends, p=probability(name, self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate and the factor."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``factor`` evenly over its range."""
        return {"apply": u[:, 0] < self.p, "factor": between(u[:, 1], self.factor)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Brightness(JitterStep):
    """Multiply by a factor and clamp to [0, 1].

    Args:
        factor: Range of the factor; one number ``x`` is (max(0, 1 - x), 1 + x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_brightness.
    """

    step: ClassVar[str] = "brightness"

    factor: float | tuple[float, float] = 0.2
    _: KW_ONLY
    p: float = 1.0


@dataclass(frozen=True)
class Contrast(JitterStep):
    """Blend with the mean of the gray image and clamp to [0, 1]; arguments as for Brightness.

    Source: torchvision v2 adjust_contrast.
    """

    step: ClassVar[str] = "contrast"

    factor: float | tuple[float, float] = 0.2
    _: KW_ONLY
    p: float = 1.0


@dataclass(frozen=True)
class Saturation(JitterStep):
    """Blend with the gray image and clamp to [0, 1]; arguments as for Brightness.

    Source: torchvision v2 adjust_saturation.
    """

    step: ClassVar[str] = "saturation"

    factor: float | tuple[float, float] = 0.2
    _: KW_ONLY
    p: float = 1.0


@dataclass(frozen=True)
class Hue(JitterStep):
    """Shift the hue.

    Args:
        factor: Range of the shift in turns, within [-0.5, 0.5]; one number ``x`` is (-x, x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_hue.
    """

    step: ClassVar[str] = "hue"

    factor: float | tuple[float, float] = 0.1
    _: KW_ONLY
    p: float = 1.0


@dataclass(frozen=True)
class RandomPhotometricDistort(Combinator):
    """Brightness, contrast, saturation, hue and an order of the channels, each with ``p``.

    Contrast comes before saturation and hue or after them, equally often.

    Args:
        brightness: Range of the factor.
        contrast: Range of the factor.
        saturation: Range of the factor.
        hue: Range of the shift in turns.
        p: How often each of the five is done, independently.

    Source: torchvision v2 RandomPhotometricDistort.
    """

    brightness: tuple[float, float] = (0.875, 1.125)
    contrast: tuple[float, float] = (0.5, 1.5)
    saturation: tuple[float, float] = (0.5, 1.5)
    hue: tuple[float, float] = (-0.05, 0.05)
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "RandomPhotometricDistort"
        for factor in FACTORS[:3]:
            self._set(**{factor: _factor(name, factor, getattr(self, factor))})
        self._set(hue=_turns(name, self.hue), p=probability(name, self.p))

    @property
    def children(self) -> tuple[Operation, ...]:
        """Contrast stands at both of its places."""
        contrast = Contrast(self.contrast, p=self.p)
        return (
            Brightness(self.brightness, p=self.p),
            contrast,
            Saturation(self.saturation, p=self.p),
            Hue(self.hue, p=self.p),
            contrast,
            ChannelShuffle(self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """One: where contrast stands."""
        return 1

    def choose(self, u: Uniforms) -> Gates:
        """All, but contrast once."""
        gates = np.ones((len(u), 6), bool)
        gates[:, 1] = u[:, 0] < 0.5
        gates[:, 4] = ~gates[:, 1]
        return gates


@dataclass(frozen=True)
class Gamma(Operation):
    """Raise values to a power.

    Args:
        gamma: The power: (smallest, largest), drawn evenly, or one number.
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_gamma; the law is Albumentations RandomGamma with its limits
    divided by 100.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    gamma: float | tuple[float, float] = (0.8, 1.2)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        gamma = one_or_two(
            "Gamma", "gamma", self.gamma, low=0, above=True, example="1.5 or (0.8, 1.2)"
        )
        self._set(gamma=gamma, p=probability("Gamma", self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate and the power."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``gamma``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "gamma": between(u[:, 1], self.gamma)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Grayscale(Gated):
    """Replace the three channels by one gray with probability ``p``.

    Args:
        p: Share of the images that are changed.
        method: "weighted_average" is 0.299 R + 0.587 G + 0.114 B; "average" of the channels;
            "max" of them; "desaturation", the middle of the largest and the smallest; "from_lab",
            OpenCV's 8-bit lightness.

    Source: torchvision v2 RandomGrayscale, whose first weight is 0.2989; the methods are those of
    Albumentations ToGray.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    p: float = 0.1
    method: Literal["weighted_average", "average", "desaturation", "max", "from_lab"] = (
        "weighted_average"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("Grayscale", "method", self.method, GRAY_METHODS)

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """Only where it goes through 8 bits."""
        return self.method == "from_lab"


@dataclass(frozen=True)
class Invert(Gated):
    """Replace each value x by 1 - x with probability ``p``.

    Source: torchvision v2 RandomInvert; Pillow ImageOps.invert.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    needs_unit_range: ClassVar[bool] = True

    @property
    def moves_pixels_only(self) -> bool:
        """8-bit values stay 8-bit values."""
        return True


@dataclass(frozen=True)
class Solarize(Operation):
    """Replace each value x that is at least a threshold by 1 - x.

    Args:
        threshold: In [0, 1]: one number, or (smallest, largest), drawn evenly.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomSolarize, whose threshold is 255 times as large on uint8;
    Pillow ImageOps.solarize.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.
    needs_unit_range: ClassVar[bool] = True

    threshold: float | tuple[float, float] = 0.5
    p: float = 0.5

    def __post_init__(self) -> None:
        ends = one_or_two(
            "Solarize", "threshold", self.threshold, low=0, high=1, example="0.5 or (0.3, 0.7)"
        )
        self._set(threshold=ends, p=probability("Solarize", self.p))

    @property
    def moves_pixels_only(self) -> bool:
        """8-bit values stay 8-bit values."""
        return True

    @property
    def num_uniforms(self) -> int:
        """The gate and the threshold."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``threshold``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "threshold": between(u[:, 1], self.threshold)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sharpness(Operation):
    """Blend with a smoothed image: 0 is smooth, 1 changes nothing, 2 is twice as sharp.

    The smoothed image is the mean of 3 x 3 pixels, in which the middle one counts five times; the
    outermost pixels stay as they are.

    Args:
        factor: One number, or (smallest, largest), drawn evenly.
        p: Share of the images that are changed.

    Source: torchvision v2 RandomAdjustSharpness; Pillow ImageEnhance.Sharpness.
    """

    # Measured 0.0001 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    factor: float | tuple[float, float] = 2.0
    p: float = 0.5

    def __post_init__(self) -> None:
        ends = one_or_two("Sharpness", "factor", self.factor, low=0, example="2.0 or (0.5, 2.0)")
        self._set(factor=ends, p=probability("Sharpness", self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate and the factor."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``factor``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "factor": between(u[:, 1], self.factor)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class HueSaturationValue(Operation):
    """Shift hue, saturation and value of the 8-bit image.

    The image is rounded to 8 bits. Gray pixels stay gray.

    Args:
        hue_shift: Range in 1/180 turns; one number ``x`` is (-x, x).
        sat_shift: Range in 1/255; one number ``x`` is (-x, x).
        val_shift: Range in 1/255; one number ``x`` is (-x, x).
        p: Share of the images that are changed.

    Source: Albumentations HueSaturationValue, with OpenCV's 8-bit HSV.
    """

    # Measured 1 on noise and photographs: OpenCV cuts fractions off, but rounds them in the columns
    # behind the last whole 32.
    tolerance: ClassVar[float] = 1.001
    needs_unit_range: ClassVar[bool] = True

    hue_shift: float | tuple[float, float] = 20.0
    sat_shift: float | tuple[float, float] = 30.0
    val_shift: float | tuple[float, float] = 20.0
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "HueSaturationValue"
        for field in ("hue_shift", "sat_shift", "val_shift"):
            ends = fields.interval(
                name, field, getattr(self, field), low=-np.inf, around=0, example="(-20, 20)"
            )
            self._set(**{field: ends})
        self._set(p=probability(name, self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate and three shifts."""
        return 4

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw three shifts, float64 [B], with the names of the fields."""
        shifts = {
            name: between(u[:, 1 + place], getattr(self, name))
            for place, name in enumerate(("hue_shift", "sat_shift", "val_shift"))
        }
        return {"apply": u[:, 0] < self.p, **shifts}


@dataclass(frozen=True)
class CLAHE(Operation):
    """Equalize the lightness of the 8-bit image tile by tile, with limited contrast.

    It is carried out by OpenCV on the CPU, also where the images are on a GPU.

    Args:
        clip_limit: Range of OpenCV's limit, from 1; one number ``x`` is (1, x).
        tile_grid_size: How many tiles there are (across, down).
        p: Share of the images that are changed.

    Source: Albumentations CLAHE.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0: both call OpenCV.
    needs_unit_range: ClassVar[bool] = True

    clip_limit: float | tuple[float, float] = 4.0
    tile_grid_size: tuple[int, int] = (8, 8)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        limit = (1.0, self.clip_limit) if fields.is_number(self.clip_limit) else self.clip_limit
        ends = fields.interval("CLAHE", "clip_limit", limit, low=1, example="4.0 or (1.0, 4.0)")
        tiles = fields.height_width("CLAHE", "tile_grid_size", self.tile_grid_size)
        self._set(clip_limit=ends, tile_grid_size=tiles, p=probability("CLAHE", self.p))

    @property
    def num_uniforms(self) -> int:
        """The gate and the limit."""
        return 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``clip_limit``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "clip_limit": between(u[:, 1], self.clip_limit)}  # type: ignore[arg-type]


@dataclass(frozen=True)
class Normalize(Operation):
    """Subtract a mean and divide by a standard deviation, per channel.

    Args:
        mean: Three numbers, for values in [0, 1].
        std: Three numbers above 0.
    """

    # Measured 0.00006 on noise and photographs, in units of 1/255 of the normalised value.
    tolerance: ClassVar[float] = 0.001
    leaves_unit_range: ClassVar[bool] = True

    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        mean = fields.numbers("Normalize", "mean", self.mean, count=3, example="(0.5, 0.5, 0.5)")
        std = fields.numbers("Normalize", "std", self.std, count=3, example="(0.5, 0.5, 0.5)")
        if min(std) <= 0:
            raise fields.fault(
                "Normalize", "std", self.std, "3 numbers above 0, for example (0.5, 0.5, 0.5)"
            )
        self._set(mean=mean, std=std)


@dataclass(frozen=True)
class ToDtype(Operation):
    """Give values the precision of a type.

    Args:
        dtype: "uint8" rounds values to whole 1/255. The floating types change nothing: values stay
            in [0, 1], and the type of a batch is the loader's.

    Source: torchvision v2 ToDtype with scale=True, which cuts fractions off where this rounds.
    """

    tolerance: ClassVar[float] = 0.001  # Measured 0.

    dtype: Literal["uint8", "float32", "float16", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        choice("ToDtype", "dtype", self.dtype, ("uint8", "float32", "float16", "bfloat16"))

    @property
    def needs_unit_range(self) -> bool:  # type: ignore[override]
        """Only where it rounds."""
        return self.dtype == "uint8"

    @property
    def moves_pixels_only(self) -> bool:
        """8-bit values stay 8-bit values."""
        return True


def choice(operation: str, field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a value that is none of the allowed words."""
    if value not in allowed:
        words = ", ".join(repr(word) for word in allowed)
        raise fields.fault(operation, field, value, f"one of {words}, for example {allowed[0]!r}")


def one_or_two(
    operation: str,
    field: str,
    value: float | tuple[float, float],
    *,
    low: float,
    high: float = np.inf,
    above: bool = False,
    example: str,
) -> tuple[float, float]:
    """Return (smallest, largest); one number is both."""
    ends = (value, value) if fields.is_number(value) else value
    return fields.interval(operation, field, ends, low=low, high=high, above=above, example=example)


def _factor(operation: str, field: str, value: float | tuple[float, float]) -> tuple[float, float]:
    return fields.interval(operation, field, value, low=0, around=1, example="0.4 or (0.6, 1.4)")


def _turns(operation: str, value: float | tuple[float, float]) -> tuple[float, float]:
    field = "hue" if operation != "Hue" else "factor"
    return fields.interval(
        operation, field, value, low=-0.5, high=0.5, around=0, example="0.1 or (-0.1, 0.1)"
    )
