"""Operations that resize full images, and the base of all operations that resample to another size."""

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
    """Check a length, or a sequence of lengths; return an integer or a tuple of integers."""
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
    """Check (height, width), one of which may be None, and return it."""
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
    """Base of operations that resample to another size.

    Attributes:
        interpolation: How pixels are interpolated: "bilinear"; "bicubic"; "nearest" takes the pixel that contains the centre of
            the new pixel (torch's "nearest-exact"); "nearest_floor" takes the pixel that contains its top-left corner (torch's
            "nearest", OpenCV's INTER_NEAREST); "area" is the mean over the area of the new pixel (OpenCV's INTER_AREA), with
            OpenCV's variant of bilinear interpolation if a side grows.
        antialias: Whether "bilinear" and "bicubic" are filtered when shrinking, as in Pillow.
        mask_interpolation: How masks are interpolated: "nearest" or "nearest_floor".
        area_for_downscale: Whether "area" is used if a side shrinks.
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
        """True for the interpolations that take the nearest pixel."""
        return self.interpolation in NEAREST and not self.area_for_downscale

    def _params(self, start: Sizes, shape: Sizes, resize: Any) -> Params:
        """Return the parameters of Resample for a crop and the size that it is resized to."""
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
    """Base of operations that resize the full image."""

    def _resize_all(self, sizes: Sizes, resize: Any) -> Params:
        return self._params(np.zeros_like(sizes), sizes, resize)


@dataclass(frozen=True)
class Resize(FullImageResize):
    """Resize the full image.

    Args:
        size: (height, width) of the result. One number is the length of the shorter side. None means that ``max_size`` is the
            length of the longer side.
        max_size: Largest length of the longer side, if ``size`` is one number; its length, if ``size`` is None.
        interpolation: See Resampling, also for the fields that are not listed.

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
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        return self._resize_all(sizes, self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the size of the result for each of ``sizes``."""
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
    """Base of operations that resize both sides by one factor, which follows from the size of the image."""

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
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        choices = self._choices(sizes)
        chosen = whole_below(drawn["choice"][:, 0], len(choices)) if len(choices) > 1 else 0
        return self._resize_all(sizes, choices[chosen, np.arange(len(sizes))])

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return every size that may be drawn for one of ``sizes``."""
        return np.concatenate(list(self._choices(sizes)))

    def _choices(self, sizes: Sizes) -> Sizes:
        """Return the sizes to draw from for each image, int64 [n, B, 2]."""
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
    """Resize such that the longer side gets a given length.

    Args:
        max_size: Length of the longer side, or several lengths to draw from.
        max_size_hw: (height, width) that the result must fit into, in place of ``max_size``; one of them may be None.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: Albumentations LongestMaxSize, with its rounding: to the nearest integer, ties to even.
    """

    max_size: MaxSizes = None
    max_size_hw: SideLimits = None

    _pick: ClassVar[Any] = staticmethod(np.max)
    _pick_factor: ClassVar[Any] = staticmethod(np.min)


@dataclass(frozen=True)
class SmallestMaxSize(MaxSize):
    """Resize such that the shorter side gets a given length.

    Args:
        max_size: Length of the shorter side, or several lengths to draw from.
        max_size_hw: (height, width) that the result must cover, in place of ``max_size``; one of them may be None.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: Albumentations SmallestMaxSize, with its rounding: to the nearest integer, ties to even.
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

    A recipe accepts the tuple as one step: ``Recipe([letterbox(640), Normalize()])``.

    Args:
        size: (height, width) of the result; one number means a square.
        fill: Value outside the image, one value or three in [0, 1].
        fill_mask: Value of masks outside the image.
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
    """Return the parameters of Resample for a crop and the size that it is resized to."""
    return {
        "start": np.array(start),
        "shape": np.array(shape),
        "resize": np.full(shape.shape, resize),
    }
