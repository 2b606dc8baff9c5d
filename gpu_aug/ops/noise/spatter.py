"""Rain and mud on the lens."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Key, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range
from gpu_aug.ops.operation import Operation

__all__ = ["Spatter"]


_SPATTERED = ("mean", "std", "gauss_sigma", "cutout_threshold", "intensity")


Share = Annotated[Range, validation.Interval(low=0, high=1, example="(0.6, 0.6)")]


@dataclass(frozen=True)
class Spatter(Operation):
    """Spatter rain or mud on the lens; runs on the CPU in every engine.

    Args:
        mean: Range of the mean of the normal field that becomes the liquid, within [0, 1].
        std: Range of its standard deviation within [0, 1].
        gauss_sigma: Range of the standard deviation of its blur, in pixels.
        cutout_threshold: Range of the value below which there is no liquid, within [0, 1].
        intensity: Range of the strength within [0, 1].
        mode: "rain" or "mud".
        color: Colour of the liquid, three numbers in [0, 1]; None is a light blue or a brown.
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
