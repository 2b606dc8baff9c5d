"""Operations that resize full images by a random factor or to a random length."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, whole_below
from gpu_aug.ops.geometric.resizes import FullImageResize, several
from gpu_aug.ops.geometric.spatial import Pair

__all__ = ["RandomResize", "RandomScale", "RandomShortestSize", "ScaleJitter"]


@dataclass(frozen=True)
class RandomScale(FullImageResize):
    """Resize both sides by one random factor.

    Args:
        scale: Smallest and largest factor; the new sides are rounded down.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: Albumentations RandomScale, whose ``scale_limit`` is the factor minus 1.
    """

    random: ClassVar[Random] = {"factor": Uniform("scale")}

    scale: Annotated[Range, validation.Interval(low=0, above=True, example="(0.9, 1.1)")] = (
        0.9,
        1.1,
    )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        return self._resize_all(sizes, scaled(sizes, drawn["factor"][:, None]))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size."""
        return np.concatenate([scaled(sizes, factor) for factor in self.scale])


@dataclass(frozen=True)
class RandomResize(FullImageResize):
    """Resize such that the shorter side gets a random length.

    Args:
        min_size: Smallest length of the shorter side.
        max_size: Largest length of the shorter side, excluded.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: torchvision v2 RandomResize.
    """

    random: ClassVar[Random] = {"length": Numbers()}

    min_size: Annotated[int, validation.Integer(low=1, example="224")]
    max_size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        low = self.min_size + 1
        longest = validation.whole(
            "RandomResize", "max_size", self.max_size, low=low, example="512"
        )
        self._set(max_size=longest)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        length = self.min_size + whole_below(
            drawn["length"][:, None], self.max_size - self.min_size
        )
        return self._resize_all(sizes, shorter_sides(sizes, length))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size."""
        lengths = (self.min_size, self.max_size - 1)
        return np.concatenate([shorter_sides(sizes, length) for length in lengths])


@dataclass(frozen=True)
class RandomShortestSize(FullImageResize):
    """Resize such that the shorter side gets a length drawn from a list.

    Args:
        min_size: Length of the shorter side, or several lengths to draw from.
        max_size: Largest length of the longer side; None sets no limit.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: torchvision v2 RandomShortestSize; both sides are rounded down.
    """

    random: ClassVar[Random] = {"length": Numbers()}

    min_size: Annotated[int | tuple[int, ...], several]
    max_size: Annotated[
        int | None, validation.optional(validation.Integer(low=1, example="1333"))
    ] = None

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        lengths = self._lengths
        return self._resize_all(
            sizes,
            self._resized(sizes, lengths[whole_below(drawn["length"][:, None], len(lengths))]),
        )

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the size for each length of the list."""
        return np.concatenate([self._resized(sizes, length) for length in self._lengths])

    @property
    def _lengths(self) -> Sizes:
        return np.array(self.min_size if isinstance(self.min_size, tuple) else (self.min_size,))

    def _resized(self, sizes: Sizes, length: Any) -> Sizes:
        factor = length / sizes.min(axis=1, keepdims=True)
        if self.max_size is not None:
            factor = np.minimum(factor, self.max_size / sizes.max(axis=1, keepdims=True))
        return scaled(sizes, factor)


@dataclass(frozen=True)
class ScaleJitter(FullImageResize):
    """Resize by a random factor of the largest size that fits into a target.

    Args:
        target_size: The target. As in torchvision, the second number limits the height of the image and the first one the width.
        scale_range: Smallest and largest factor.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: torchvision v2 ScaleJitter; both sides are rounded down.
    """

    random: ClassVar[Random] = {"factor": Uniform("scale_range")}

    target_size: Pair
    scale_range: Annotated[Range, validation.Interval(low=0, above=True, example="(0.1, 2.0)")] = (
        0.1,
        2.0,
    )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        return self._resize_all(sizes, self._resized(sizes, drawn["factor"][:, None]))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size."""
        return np.concatenate([self._resized(sizes, share) for share in self.scale_range])

    def _resized(self, sizes: Sizes, share: Any) -> Sizes:
        target = np.array(self.target_size)[::-1]
        return scaled(sizes, (target / sizes).min(axis=1, keepdims=True) * share)


def scaled(sizes: Sizes, factor: Any) -> Sizes:
    """Return sizes times a factor, rounded down, but at least 1."""
    results: Sizes = np.maximum((sizes * factor).astype(np.int64), 1)
    return results


def shorter_sides(sizes: Sizes, length: Any) -> Sizes:
    """Return sizes scaled such that the shorter side is ``length``; the other side is rounded down."""
    shorter = sizes.min(axis=1, keepdims=True)
    results: Sizes = np.where(sizes == shorter, length, (length * sizes / shorter).astype(np.int64))
    return results
