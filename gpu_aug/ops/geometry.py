"""Operations that choose, move or resample pixels."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.operation import Gated
from gpu_aug.ops.sampling import Sizes, Uniforms, between, log_between, whole_below
from gpu_aug.ops.spatial import Crop, Reorient, Resample

__all__ = ["CenterCrop", "HorizontalFlip", "RandomResizedCrop", "Resize", "VerticalFlip"]

_NUM_TRIES = 10  # torchvision's number, for RandomResizedCrop
_RATIO = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class RandomResizedCrop(Resample):
    """Cut a random part of the image and resample it to one size (bilinear).

    Args:
        size: (height, width) of the result; one number is a square.
        scale: Smallest and largest area of the part, as a share of the image.
        ratio: Smallest and largest width / height of the part; drawn log-uniformly.
        antialias: Whether to filter when shrinking.

    Source: torchvision v2 RandomResizedCrop: ten tries, then the largest centred part whose
    ratio is allowed. Drawn for a whole batch at once, from numbers of our own.
    """

    # Measured 0.0015 on noise and photographs without antialiasing; with it one engine runs.
    tolerance: ClassVar[float] = 0.01

    size: int | tuple[int, int]
    _: KW_ONLY
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = _RATIO
    antialias: bool = True

    def __post_init__(self) -> None:
        name = "RandomResizedCrop"
        self._set(
            size=fields.height_width(name, "size", self.size),
            scale=fields.interval(
                name, "scale", self.scale, low=0, above=True, example="(0.08, 1.0)"
            ),
            ratio=fields.interval(
                name, "ratio", self.ratio, low=0, above=True, example="(0.75, 1.333)"
            ),
            antialias=bool(self.antialias),
        )

    @property
    def num_uniforms(self) -> int:
        """An area and a ratio per try, then a place: top and left."""
        return 2 * _NUM_TRIES + 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2], beside the fixed ``resize``."""
        area = sizes.prod(axis=1, keepdims=True) * between(u[:, :_NUM_TRIES], self.scale)
        ratio = log_between(u[:, _NUM_TRIES : 2 * _NUM_TRIES], self.ratio)
        shapes = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=2))).astype(np.int64)

        fits = ((shapes > 0) & (shapes <= sizes[:, None])).all(axis=2)
        first = fits.argmax(axis=1)
        drawn = np.take_along_axis(shapes, first[:, None, None], axis=1)[:, 0]
        found = fits.any(axis=1)[:, None]
        shape = np.where(found, drawn, self._fallback(sizes))
        room = sizes - shape
        start = np.where(found, whole_below(u[:, -2:], room + 1), room // 2)
        return resample_params(start, shape, self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])

    def _fallback(self, sizes: Sizes) -> Sizes:
        height, width = sizes.T
        narrowest, widest = self.ratio
        tall = np.rint(width / narrowest).astype(np.int64)
        wide = np.rint(height * widest).astype(np.int64)
        share = width / height
        shape: Sizes = np.stack(
            [
                np.where(share < narrowest, tall, height),
                np.where(share > widest, wide, width),
            ],
            axis=1,
        )
        return np.maximum(np.minimum(shape, sizes), 1)


@dataclass(frozen=True)
class Resize(Resample):
    """Resample the whole image (bilinear).

    Args:
        size: (height, width) of the result; one number is the length of the shorter side.
        antialias: Whether to filter when shrinking.

    Source: torchvision v2 Resize, with its rounding: the longer side is rounded down.
    """

    tolerance: ClassVar[float] = RandomResizedCrop.tolerance

    size: int | tuple[int, int]
    _: KW_ONLY
    antialias: bool = True

    def __post_init__(self) -> None:
        pair = fields.height_width("Resize", "size", self.size)
        self._set(size=pair[0] if fields.is_whole(self.size) else pair)
        self._set(antialias=bool(self.antialias))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - nothing is random
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        return resample_params(np.zeros_like(sizes), sizes, self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``size``, or the size whose shorter side is ``size``, for each of ``sizes``."""
        if not isinstance(self.size, int):
            return np.broadcast_to(np.array(self.size), sizes.shape)
        shorter = sizes.min(axis=1, keepdims=True)
        # int(size * long / short) in doubles, as torchvision computes it.
        return np.where(sizes == shorter, self.size, (self.size * sizes / shorter).astype(np.int64))


@dataclass(frozen=True)
class CenterCrop(Crop):
    """Cut out the middle; an image that is too small gets a black border.

    Args:
        size: (height, width) of the result; one number is a square.

    Source: torchvision v2 CenterCrop, with its rounding on odd differences.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        self._set(size=fields.height_width("CenterCrop", "size", self.size))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, negative where a border is added, and ``shape``, int64 [B, 2]."""
        shape = np.broadcast_to(np.array(self.size), sizes.shape)
        padding = np.maximum(shape - sizes, 0) // 2
        # Padding puts the odd row at the bottom; cropping rounds half to even.
        cut = np.rint(np.maximum(sizes - shape, 0) / 2).astype(np.int64)
        return {"apply": np.ones(len(u), bool), "start": cut - padding, "shape": shape}

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])


@dataclass(frozen=True)
class HorizontalFlip(Gated, Reorient):
    """Mirror left and right with probability ``p``.

    Source: torchvision v2 RandomHorizontalFlip.
    """

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate."""
        return reorient_params(u[:, 0] < self.p, left_right=True)


@dataclass(frozen=True)
class VerticalFlip(Gated, Reorient):
    """Mirror top and bottom with probability ``p``.

    Source: torchvision v2 RandomVerticalFlip.
    """

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw the gate."""
        return reorient_params(u[:, 0] < self.p, top_bottom=True)


def reorient_params(
    apply: Any, *, transpose: Any = False, top_bottom: Any = False, left_right: Any = False
) -> Params:
    """Return the parameters of Reorient; each is bool, or bool [B]."""
    names = ("apply", "transpose", "top_bottom", "left_right")
    columns = np.broadcast_arrays(apply, transpose, top_bottom, left_right)
    return dict(zip(names, columns, strict=True))


def resample_params(start: Sizes, shape: Sizes, resize: Any) -> Params:
    """Return the parameters of "cut this rectangle and resample it"."""
    resize = np.broadcast_to(np.array(resize), shape.shape)
    return {"apply": np.ones(len(shape), bool), "start": start, "shape": shape, "resize": resize}
