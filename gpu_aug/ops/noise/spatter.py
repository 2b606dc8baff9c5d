"""Rain and mud on the lens."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import keys

__all__ = ["Spatter"]


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

    num_uniforms: ClassVar[int] = 8
    """The gate, the key and five numbers."""

    mean: tuple[float, float] = (0.65, 0.65)
    std: tuple[float, float] = (0.3, 0.3)
    gauss_sigma: tuple[float, float] = (2.0, 2.0)
    cutout_threshold: tuple[float, float] = (0.68, 0.68)
    intensity: tuple[float, float] = (0.6, 0.6)
    _: KW_ONLY
    mode: Literal["rain", "mud"] = "rain"
    color: tuple[float, float, float] | None = None
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Spatter"
        if self.mode not in ("rain", "mud"):
            raise validation.fault(name, "mode", self.mode, "'rain' or 'mud'")
        values: dict[str, Any] = {}
        for field in _SPATTERED:
            high = np.inf if field == "gauss_sigma" else 1
            values[field] = validation.interval(
                name, field, getattr(self, field), low=0, high=high, example="(0.6, 0.6)"
            )
        if self.color is not None:
            values["color"] = validation.numbers(
                name, "color", self.color, count=3, example="(0.1, 0.2, 0.2)"
            )
        self._set(p=validation.probability(name, self.p), **values)

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``key``, uint32 [B, 2], and a number for each range, float64 [B]."""
        drawn = {
            field: between(u[:, 3 + number], getattr(self, field))
            for number, field in enumerate(_SPATTERED)
        }
        return {"apply": u[:, 0] < self.p, "key": keys(u[:, 1:3]), **drawn}


_SPATTERED = ("mean", "std", "gauss_sigma", "cutout_threshold", "intensity")
