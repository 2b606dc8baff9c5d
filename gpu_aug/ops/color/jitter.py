"""Operations that change brightness, contrast, saturation and hue by random factors."""

from dataclasses import KW_ONLY, dataclass
from itertools import permutations
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.color.matrices import ChannelShuffle
from gpu_aug.ops.combine import Combinator, Gates
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, whole_below
from gpu_aug.ops.operation import Operation

__all__ = ["Brightness", "ColorJitter", "Contrast", "Hue", "RandomPhotometricDistort", "Saturation"]

# The adjustments, as the drawn order counts them.
FACTORS = ("brightness", "contrast", "saturation", "hue")
# All orders of the four adjustments.
_ORDERS = np.array(list(permutations(range(4))), np.int64)


def _factor(operation: str, field: str, value: float | tuple[float, float]) -> tuple[float, float]:
    return validation.interval(
        operation, field, value, low=0, around=1, example="0.4 or (0.6, 1.4)"
    )


def _turns(operation: str, field: str, value: float | tuple[float, float]) -> tuple[float, float]:
    return validation.interval(
        operation, field, value, low=-0.5, high=0.5, around=0, example="0.1 or (-0.1, 0.1)"
    )


Factor = Annotated[float | Range, _factor]
Turn = Annotated[float | Range, _turns]


@dataclass(frozen=True)
class ColorJitter(Operation):
    """Change brightness, contrast, saturation and hue in an order drawn per image.

    Brightness multiplies by a factor; contrast blends with the mean gray, saturation with the gray image; hue shifts by a
    share of a turn. Every step but hue clamps to [0, 1].

    Args:
        brightness: Range of the brightness factor; one number ``x`` means (max(0, 1 - x), 1 + x).
        contrast: Range of the contrast factor, given like ``brightness``.
        saturation: Range of the saturation factor, given like ``brightness``.
        hue: Range of the hue shift in turns, within [-0.5, 0.5]; one number ``x`` means (-x, x).
        p: Share of the images that are changed.

    Source: torchvision v2 ColorJitter (gray is 0.299 R + 0.587 G + 0.114 B in the engines,
    0.2989 R in torchvision); ``p`` is torchvision's RandomApply around it.

    Example:
        >>> Recipe([RandomResizedCrop(224), ColorJitter(brightness=0.4, hue=0.1, p=0.8)]).size
        (224, 224)
    """

    # Measured 0.001 on noise and photographs at the widest factors.
    tolerance: ClassVar[float] = 0.01
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {**{name: Uniform() for name in FACTORS}, "order": Numbers()}

    brightness: Factor = 0.0
    contrast: Factor = 0.0
    saturation: Factor = 0.0
    hue: Turn = 0.0
    _: KW_ONLY
    p: float = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return the four factors, float64 [B], and ``order``, int64 [B, 4]: indices into FACTORS in the order of application."""
        return drawn | {"order": _ORDERS[whole_below(drawn["order"], len(_ORDERS))]}


@dataclass(frozen=True)
class JitterStep(Operation, abstract=True):
    """Base of the four adjustments of ColorJitter as operations. The drawn parameter is ``factor``, float64 [B].

    Args:
        factor: Range of the factor; one number ``x`` means (max(0, 1 - x), 1 + x).
        p: Share of the images that are changed.
    """

    tolerance: ClassVar[float] = ColorJitter.tolerance
    needs_unit_range: ClassVar[bool] = True

    step: ClassVar[str]
    """Which of FACTORS."""

    random: ClassVar[Random] = {"factor": Uniform()}

    factor: Factor = 0.2
    _: KW_ONLY
    p: float = 1.0


@dataclass(frozen=True)
class Brightness(JitterStep):
    """Multiply by a factor and clamp to [0, 1].

    Args:
        factor: Range of the factor; one number ``x`` means (max(0, 1 - x), 1 + x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_brightness.
    """

    any_channels: ClassVar[bool] = True

    step: ClassVar[str] = "brightness"


@dataclass(frozen=True)
class Contrast(JitterStep):
    """Blend with the mean gray of the image and clamp to [0, 1].

    Args:
        factor: Range of the weight of the image; one number ``x`` means (max(0, 1 - x), 1 + x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_contrast.
    """

    step: ClassVar[str] = "contrast"


@dataclass(frozen=True)
class Saturation(JitterStep):
    """Blend with the gray image and clamp to [0, 1].

    Args:
        factor: Range of the weight of the image; one number ``x`` means (max(0, 1 - x), 1 + x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_saturation.
    """

    step: ClassVar[str] = "saturation"


@dataclass(frozen=True)
class Hue(JitterStep):
    """Shift the hue.

    Args:
        factor: Range of the shift in turns, within [-0.5, 0.5]; one number ``x`` means (-x, x).
        p: Share of the images that are changed.

    Source: torchvision v2 adjust_hue.
    """

    step: ClassVar[str] = "hue"

    factor: Turn = 0.1


@dataclass(frozen=True)
class RandomPhotometricDistort(Combinator):
    """Change brightness, contrast, saturation, hue and the order of the channels, each with probability ``p``.

    Contrast is applied before or after saturation and hue, equally often.

    Args:
        brightness: Range of the brightness factor.
        contrast: Range of the contrast factor.
        saturation: Range of the saturation factor.
        hue: Range of the hue shift in turns.
        p: Probability of each of the five adjustments, independently.

    Source: torchvision v2 RandomPhotometricDistort.
    """

    is_gated: ClassVar[bool] = False
    random: ClassVar[Random] = {"contrast_place": Numbers()}

    brightness: Factor = (0.875, 1.125)
    contrast: Factor = (0.5, 1.5)
    saturation: Factor = (0.5, 1.5)
    hue: Turn = (-0.05, 0.05)
    p: float = 0.5

    @property
    def children(self) -> tuple[Operation, ...]:
        """The adjustments in order; contrast is listed twice, because it may come before or after saturation and hue."""
        contrast = Contrast(self.contrast, p=self.p)
        return (
            Brightness(self.brightness, p=self.p),
            contrast,
            Saturation(self.saturation, p=self.p),
            Hue(self.hue, p=self.p),
            contrast,
            ChannelShuffle(self.p),
        )

    def choose(self, gate: NDArray[np.bool_], drawn: Drawn) -> Gates:
        """Return gates that choose every adjustment, and contrast at one of its two places, bool [B, 6]."""
        gates = np.ones((len(gate), 6), bool)
        gates[:, 1] = drawn["contrast_place"] < 0.5
        gates[:, 4] = ~gates[:, 1]
        return gates
