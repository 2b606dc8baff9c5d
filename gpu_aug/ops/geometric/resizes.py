"""Operations that resize full images, and the base of all operations that change the size."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, whole_below
from gpu_aug.ops.geometric.pads import PadIfNeeded
from gpu_aug.ops.geometric.spatial import Fill, Pair, Resample
from gpu_aug.ops.operation import Operation

__all__ = ["LongestMaxSize", "Resize", "SmallestMaxSize", "letterbox"]

NEAREST = ("nearest", "nearest_floor")
"""Interpolations that invent no values."""

Resampled = Literal["nearest", "nearest_floor", "bilinear", "bicubic", "area"]


def several(name: str, field: str, value: Any) -> int | tuple[int, ...]:
    """Return a length, or several."""
    values = (value,) if validation.is_whole(value) else value
    if (
        not isinstance(values, Sequence)
        or isinstance(values, str)
        or not values
        or not all(validation.is_whole(item) and item > 0 for item in values)
    ):
        raise validation.fault(
            name, field, value, "one or more whole numbers of at least 1, for example 512"
        )
    return int(values[0]) if len(values) == 1 else tuple(int(item) for item in values)


def _size(operation: str, field: str, value: Any) -> int | tuple[int, int]:
    pair = validation.height_width(operation, field, value)
    return pair[0] if validation.is_whole(value) else pair


def _largest_sides(operation: str, field: str, value: Any) -> tuple[int | None, ...]:
    """Return (height, width), one of which may be None."""
    if (
        not validation.is_sequence(value, 2)
        or all(side is None for side in value)
        or not all(side is None or (validation.is_whole(side) and side > 0) for side in value)
    ):
        allowed = "(height, width), one may be None, such as (480, 640)"
        raise validation.fault(operation, field, value, allowed)
    return tuple(None if side is None else int(side) for side in value)


@dataclass(frozen=True, kw_only=True)
class Resampling(Resample, abstract=True):
    """A resize with an interpolation.

    Attributes:
        interpolation: "bilinear"; "bicubic"; "nearest" takes the pixel in which the centre of the
            new pixel falls (torch's "nearest-exact"); "nearest_floor" the one in which its
            top-left corner falls (torch's "nearest", OpenCV's INTER_NEAREST); "area" is the mean
            over what a new pixel covers, OpenCV's INTER_AREA, with OpenCV's variant of bilinear
            where a side grows.
        antialias: Whether "bilinear" and "bicubic" filter when shrinking, as Pillow does.
        mask_interpolation: "nearest" or "nearest_floor", for masks.
        area_for_downscale: Whether "area" is used where a side shrinks.
    """

    # Measured on noise and photographs: 0.0015 bilinear, 0.004 bicubic, 0.001 area; with
    # antialiasing all engines run the same code.
    tolerance: ClassVar[float] = 0.01

    interpolation: Resampled = "bilinear"  # type: ignore[assignment]
    antialias: bool = True
    mask_interpolation: Literal["nearest", "nearest_floor"] = "nearest"
    area_for_downscale: bool = False

    @property
    def moves_pixels_only(self) -> bool:
        """Where no value is interpolated."""
        return self.interpolation in NEAREST and not self.area_for_downscale

    def _params(self, start: Sizes, shape: Sizes, resize: Any) -> Params:
        """Return the parameters of "cut this rectangle and resample it"."""
        params = resample_params(start, shape, resize)
        if self.area_for_downscale:
            params["area"] = np.asarray((params["resize"] < params["shape"]).any(axis=1))
        return params

    def __post_init__(self) -> None:
        super().__post_init__()
        filters = self.interpolation in ("bilinear", "bicubic")
        self._set(antialias=bool(self.antialias) and filters)


@dataclass(frozen=True)
class FullImageResize(Resampling, abstract=True):
    """Resamples the full image."""

    def _resize_all(self, sizes: Sizes, resize: Any) -> Params:
        return self._params(np.zeros_like(sizes), sizes, resize)


@dataclass(frozen=True)
class Resize(FullImageResize):
    """Resample the full image.

    Args:
        size: (height, width) of the result; one number is the length of the shorter side; None
            leaves it to ``max_size``.
        max_size: Largest length of the longer side, where ``size`` is one number; its length,
            where ``size`` is None.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 Resize, with its rounding: the other side is rounded down.
    """

    size: Annotated[int | tuple[int, int] | None, validation.optional(_size)]
    max_size: Annotated[
        int | None, validation.optional(validation.Integer(low=1, example="512"))
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size is None and self.max_size is None:
            raise validation.fault(
                "Resize", "size", None, "one or two whole numbers, for example 224"
            )
        if self.max_size is None or self.size is None:
            return
        if not isinstance(self.size, int) or self.max_size <= self.size:
            raise RecipeError(
                "Resize max_size must be larger than size, and size one number, "
                f"got size={self.size!r} and max_size={self.max_size!r}"
            )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        return self._resize_all(sizes, self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``size``, or the size that follows from the sides, for each of ``sizes``."""
        if isinstance(self.size, tuple):
            return np.broadcast_to(np.array(self.size), sizes.shape)
        # int(size * long / short) in doubles, as torchvision computes it.
        shorter, longer = sizes.min(axis=1, keepdims=True), sizes.max(axis=1, keepdims=True)
        tall = sizes == longer
        if self.size is None:
            most = self.max_size or 1  # never None here
            resized: Sizes = np.where(tall, most, (most * sizes / longer).astype(np.int64))
            return np.maximum(resized, 1)
        long = (self.size * longer / shorter).astype(np.int64)
        short = np.full_like(long, self.size)
        if self.max_size is not None:
            over = long > self.max_size
            short = np.where(over, (self.max_size * short / long).astype(np.int64), short)
            long = np.where(over, self.max_size, long)
        sides: Sizes = np.maximum(np.where(sizes == shorter, short, long), 1)
        return sides


MaxSizes = Annotated[int | tuple[int, ...] | None, validation.optional(several)]
SideLimits = Annotated[tuple[int | None, int | None] | None, validation.optional(_largest_sides)]


@dataclass(frozen=True, kw_only=True)
class MaxSize(FullImageResize, abstract=True):
    """A resampling by one factor for both sides, which follows from the image's size."""

    random: ClassVar[Random] = {
        "choice": Numbers(lambda self: int(isinstance(self.max_size, tuple)))
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        max_size, max_size_hw = self.max_size, self.max_size_hw  # type: ignore[attr-defined]
        if (max_size is None) == (max_size_hw is None):
            raise RecipeError(
                f"{type(self).__name__} needs either max_size or max_size_hw, "
                f"got max_size={max_size!r} and max_size_hw={max_size_hw!r}: for example max_size=512"
            )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        choices = self._choices(sizes)
        chosen = whole_below(drawn["choice"][:, 0], len(choices)) if len(choices) > 1 else 0
        return self._resize_all(sizes, choices[chosen, np.arange(len(sizes))])

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Every size that may be chosen for one of ``sizes``."""
        return np.concatenate(list(self._choices(sizes)))

    def _choices(self, sizes: Sizes) -> Sizes:
        """Return the sizes to choose from, int64 [n, B, 2]."""
        max_size = self.max_size  # type: ignore[attr-defined]
        if max_size is not None:
            targets = max_size if isinstance(max_size, tuple) else (max_size,)
            side = self._pick(sizes, axis=1)
            factors = np.array(targets)[:, None] / side
        else:
            hw = self.max_size_hw  # type: ignore[attr-defined]
            each = [side / sizes[:, axis] for axis, side in enumerate(hw) if side is not None]
            # The side whose limit is reached first decides.
            factors = self._pick_factor(np.stack(each), axis=0)[None]
        choices: Sizes = np.maximum(np.rint(sizes * factors[:, :, None]), 1).astype(np.int64)
        return choices

    _pick: ClassVar[Any]
    _pick_factor: ClassVar[Any]


@dataclass(frozen=True)
class LongestMaxSize(MaxSize):
    """Resample so that the longer side has one length.

    Args:
        max_size: The length; several are drawn from.
        max_size_hw: (height, width) that the result shall fit into; one may be None.
        interpolation: See Resampling; and so the others.

    Source: Albumentations LongestMaxSize, with its rounding: to the nearest, ties to even.
    """

    max_size: MaxSizes = None
    max_size_hw: SideLimits = None

    _pick: ClassVar[Any] = staticmethod(np.max)
    _pick_factor: ClassVar[Any] = staticmethod(np.min)


@dataclass(frozen=True)
class SmallestMaxSize(MaxSize):
    """Resample so that the shorter side has one length.

    Args:
        max_size: The length; several are drawn from.
        max_size_hw: (height, width) that the result shall cover; one may be None.
        interpolation: See Resampling; and so the others.

    Source: Albumentations SmallestMaxSize, with its rounding: to the nearest, ties to even.
    """

    max_size: MaxSizes = None
    max_size_hw: SideLimits = None

    _pick: ClassVar[Any] = staticmethod(np.min)
    _pick_factor: ClassVar[Any] = staticmethod(np.max)


def letterbox(
    size: Pair,
    *,
    fill: Fill = 0.0,
    fill_mask: int = 0,
    interpolation: Resampled = "bilinear",
    antialias: bool = True,
) -> tuple[Operation, Operation]:
    """Return the two operations that fit an image into a size and pad the rest.

    A recipe accepts the list as one step: ``Recipe([letterbox(640), Normalize()])``.

    Args:
        size: (height, width) of the result; one number is a square.
        fill: Value outside the image, one value or three in [0, 1].
        fill_mask: The same for masks.
        interpolation: See Resampling.
        antialias: See Resampling.

    Example:
        >>> Recipe([letterbox(640), Normalize()]).size
        (640, 640)
    """
    inside = validation.height_width("letterbox", "size", size)
    return (
        LongestMaxSize(max_size_hw=inside, interpolation=interpolation, antialias=antialias),
        PadIfNeeded(inside, fill=fill, fill_mask=fill_mask),
    )


def resample_params(start: Sizes, shape: Sizes, resize: Any) -> Params:
    """Return the parameters of "cut this rectangle and resample it"."""
    return {
        "start": np.array(start),
        "shape": np.array(shape),
        "resize": np.full(shape.shape, resize),
    }
