"""Operations that paint over part of an image."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.sampling import Sizes, Uniforms, between, log_between, whole_below

__all__ = ["RandomErasing"]

_NUM_TRIES = 10  # torchvision's number


@dataclass(frozen=True)
class RandomErasing(Operation):
    """Paint one random rectangle with one value, with probability ``p``.

    Args:
        p: Share of the images that are changed, but for those where no try fitted.
        scale: Smallest and largest area of the rectangle, as a share of the image.
        ratio: Smallest and largest height / width of the rectangle; drawn log-uniformly.
        value: What is painted, in the values of this place in the recipe: [0, 1] before
            Normalize, normalised after it.

    Source: torchvision v2 RandomErasing: ten tries, then the image stays as it is.
    """

    p: float = 0.5
    _: KW_ONLY
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float = 0.0

    def __post_init__(self) -> None:
        name = "RandomErasing"
        self._set(
            p=fields.probability(name, self.p),
            scale=fields.interval(name, "scale", self.scale, low=0, high=1, example="(0.02, 0.33)"),
            ratio=fields.interval(
                name, "ratio", self.ratio, low=0, above=True, example="(0.3, 3.3)"
            ),
            value=fields.number(name, "value", self.value),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, an area and a ratio per try, then a place: top and left."""
        return 1 + 2 * _NUM_TRIES + 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2]; ``apply`` is off where no try fitted."""
        area = sizes.prod(axis=1, keepdims=True) * between(u[:, 1 : 1 + _NUM_TRIES], self.scale)
        ratio = log_between(u[:, 1 + _NUM_TRIES : 1 + 2 * _NUM_TRIES], self.ratio)
        shapes = np.rint(np.sqrt(np.stack([area * ratio, area / ratio], axis=2))).astype(np.int64)

        fits = (shapes < sizes[:, None]).all(axis=2)
        first = fits.argmax(axis=1)
        found = fits.any(axis=1)
        drawn = np.take_along_axis(shapes, first[:, None, None], axis=1)[:, 0]
        shape = np.where(found[:, None], drawn, 0)
        start = whole_below(u[:, -2:], sizes - shape + 1)
        seen = (shape > 0).all(axis=1)
        return {"apply": (u[:, 0] < self.p) & seen, "start": start, "shape": shape}
