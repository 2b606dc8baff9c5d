"""RandomResizedCrop: a random crop that is resized to one size."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Law, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import (
    Range,
    Sizes,
    log_between,
)
from gpu_aug.ops.geometric.resizes import Resampling
from gpu_aug.ops.geometric.spatial import Pair, ToOneSize

__all__ = ["RandomResizedCrop"]

_NUM_TRIES = 10  # torchvision's number, for RandomResizedCrop
# torchvision's default.
_RATIO = (3 / 4, 4 / 3)

_int64: Any = np.int64  # compiled code makes plain whole numbers with it


@dataclass(frozen=True)
class RandomResizedCrop(ToOneSize, Resampling):
    """Crop a random part of the image and resize it to one size.

    Args:
        size: (height, width) of the result; one number means a square.
        scale: Smallest and largest area of the crop, as a share of the image.
        ratio: Smallest and largest width / height of the crop; drawn log-uniformly.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: torchvision v2 RandomResizedCrop: ten tries, then the largest centred crop whose ratio is allowed. The random
    numbers are not torchvision's, and are drawn for the whole batch at once.

    Example:
        >>> Recipe([RandomResizedCrop(224, scale=(0.2, 1.0))]).size
        (224, 224)
    """

    random: ClassVar[Random] = {
        "area": Uniform("scale", _NUM_TRIES),
        "ratio": Law(log_between, count=_NUM_TRIES),
        "place": Numbers(2),
    }

    size: Pair
    _: KW_ONLY
    scale: Annotated[Range, validation.Interval(low=0, above=True, example="(0.08, 1.0)")] = (
        0.08,
        1.0,
    )
    ratio: Annotated[Range, validation.Interval(low=0, above=True, example="(0.75, 1.333)")] = (
        _RATIO
    )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        start, shape = np.empty_like(sizes, order="C"), np.empty_like(sizes, order="C")
        _first_that_fits(
            np.ascontiguousarray(sizes),
            drawn["area"],
            drawn["ratio"],
            np.ascontiguousarray(drawn["place"]),
            *self.ratio,
            start,
            shape,
        )
        return self._params(start, shape, self.size)


@CompiledAtFirstCall
def _first_that_fits(
    sizes: Any, shares: Any, ratios: Any, corners: Any, narrowest: float, widest: float, starts: Any, shapes: Any,
) -> None:  # fmt: skip
    """Write the crop of every image: the first try that fits, else the largest allowed one in the middle.

    Args:
        sizes: Heights and widths of the images, int64 [B, 2].
        shares: Area of each try as a share of the image, float64 [B, n].
        ratios: Width / height of each try, float64 [B, n]. Its exponential is computed with numpy, because that of compiled
            code differs in the last bits.
        corners: Uniform numbers for top and left, float64 [B, 2].
        narrowest: Smallest allowed width / height.
        widest: Largest allowed width / height.
        starts: Top and left of the crops, int64 [B, 2]; written.
        shapes: Heights and widths of the crops, int64 [B, 2]; written.
    """
    for row in range(len(sizes)):
        height, width = sizes[row, 0], sizes[row, 1]
        is_found = False
        for number in range(shares.shape[1]):
            area, ratio = (height * width) * shares[row, number], ratios[row, number]
            tall, wide = (
                _int64(np.rint(np.sqrt(area / ratio))),
                _int64(np.rint(np.sqrt(area * ratio))),
            )
            if 0 < tall <= height and 0 < wide <= width:
                is_found = True
                break
        if not is_found:
            share = width / height
            tall = _int64(np.rint(width / narrowest)) if share < narrowest else height
            wide = _int64(np.rint(height * widest)) if share > widest else width
            tall, wide = max(min(tall, height), 1), max(min(wide, width), 1)
        shapes[row, 0], shapes[row, 1] = tall, wide
        for axis in range(2):
            room = sizes[row, axis] - shapes[row, axis]
            drawn = _int64(corners[row, axis] * (room + 1))
            starts[row, axis] = drawn if is_found else room // 2
