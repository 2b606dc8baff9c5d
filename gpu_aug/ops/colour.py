"""Operations that change values and leave pixels where they are."""

from dataclasses import KW_ONLY, dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.operation import Gated, Operation
from gpu_aug.ops.sampling import Sizes, Uniforms, between, whole_below

__all__ = ["ColorJitter", "Grayscale", "Normalize"]

FACTORS = ("brightness", "contrast", "saturation", "hue")
_ORDERS = np.array(list(permutations(range(4))), np.int64)

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


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
            value = getattr(self, factor)
            ends = fields.interval(
                name, factor, value, low=0, around=1, example="0.4 or (0.6, 1.4)"
            )
            self._set(**{factor: ends})
        hue = fields.interval(
            name, "hue", self.hue, low=-0.5, high=0.5, around=0, example="0.1 or (-0.1, 0.1)"
        )
        self._set(hue=hue, p=fields.probability(name, self.p))

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


@dataclass(frozen=True)
class Grayscale(Gated):
    """Replace the three channels by 0.299 R + 0.587 G + 0.114 B with probability ``p``.

    Source: torchvision v2 RandomGrayscale, whose first weight is 0.2989.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001

    p: float = 0.1


@dataclass(frozen=True)
class Normalize(Operation):
    """Subtract a mean and divide by a standard deviation, per channel.

    Args:
        mean: Three numbers, for values in [0, 1].
        std: Three numbers above 0.
    """

    # Measured 0.00006 on noise and photographs, in units of 1/255 of the normalised value.
    tolerance: ClassVar[float] = 0.001

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
