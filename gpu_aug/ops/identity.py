"""The operation that does nothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops.distributions.columns import Drawn
from gpu_aug.ops.distributions.uniform import Sizes
from gpu_aug.ops.geometric.spatial import Reorient

__all__ = ["Identity"]


@dataclass(frozen=True)
class Identity(Reorient):
    """Leave the image unchanged: a choice for OneOf or SomeOf.

    Source: torchvision v2 Identity; Albumentations NoOp.

    Example:
        >>> recipe = Recipe([RandomResizedCrop(224), OneOf([Identity(), Grayscale(1.0)])])
    """

    tolerance: ClassVar[float] = 0.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Close every gate."""
        names = ("apply", "transpose", "top_bottom", "left_right")
        return {name: np.zeros(len(sizes), bool) for name in names}
