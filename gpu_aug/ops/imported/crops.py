"""Crops by a random height, at random borders or at random sides."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.borders import crop_params
from gpu_aug.ops.geometric.resizes import Resampling
from gpu_aug.ops.geometric.spatial import (
    Crop,
    Fill,
    MaskValue,
    PaddingMode,
    Pair,
    ToOneSize,
    pads_whole,
)

__all__ = ["CropAndPad", "RandomCropFromBorders", "RandomSizedCrop"]


@dataclass(frozen=True)
class RandomCropFromBorders(Crop):
    """Remove a random number of rows and columns at each side.

    Args:
        crop_left: Largest share of the width that is removed at the left; the other fields are for the other sides.

    Source: Albumentations RandomCropFromBorders.
    """

    random: ClassVar[Random] = {"start": Numbers(2), "stop": Numbers(2)}

    crop_left: Annotated[float, validation.Number(low=0, high=1, example="0.1")] = 0.1
    crop_right: Annotated[float, validation.Number(low=0, high=1, example="0.1")] = 0.1
    crop_top: Annotated[float, validation.Number(low=0, high=1, example="0.1")] = 0.1
    crop_bottom: Annotated[float, validation.Number(low=0, high=1, example="0.1")] = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if max(self.crop_left + self.crop_right, self.crop_top + self.crop_bottom) > 1:
            raise RecipeError(
                f"RandomCropFromBorders must not cut off more than there is, got {self!r}"
            )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]; see Crop."""
        earliest, latest = self._ends(sizes)
        start = np.minimum(whole_below(drawn["start"], earliest + 1), sizes - 1)
        low = np.maximum(start + 1, latest)
        stop = low + whole_below(drawn["stop"], sizes - low + 1)
        return crop_params(start, stop - start)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size of a result."""
        earliest, latest = self._ends(sizes)
        return np.concatenate([np.maximum(latest - earliest, 1), sizes])

    def _ends(self, sizes: Sizes) -> tuple[Sizes, Sizes]:
        """Return the last row and column at which the crop may start, and the first before which it may stop, int64 [B, 2]."""
        before = np.array([self.crop_top, self.crop_left])
        after = np.array([self.crop_bottom, self.crop_right])
        return (before * sizes).astype(np.int64), ((1 - after) * sizes).astype(np.int64)


@dataclass(frozen=True)
class RandomSizedCrop(ToOneSize, Resampling):
    """Crop a part of random height and fixed ratio, and resize it to one size.

    Args:
        min_max_height: Smallest and largest height of the crop in pixels, both included; it is limited to the image.
        size: (height, width) of the result; one number means a square.
        w2h_ratio: Width / height of the crop.
        interpolation: See Resampling, also for the fields that are not listed.

    Source: Albumentations RandomSizedCrop.
    """

    random: ClassVar[Random] = {"height": Integer("min_max_height"), "place": Numbers(2)}

    min_max_height: Annotated[tuple[int, int], validation.IntegerRange(low=1, example="(64, 128)")]
    size: Pair
    _: KW_ONLY
    w2h_ratio: Annotated[float, validation.Number(low=0, above=True, example="1.0")] = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        height = drawn["height"]
        wanted = np.stack([height, (height * self.w2h_ratio).astype(np.int64)], axis=1)
        shape = np.clip(wanted, 1, sizes)
        return self._params(whole_below(drawn["place"], sizes - shape + 1), shape, self.size)


def _sides(operation: str, field: str, value: Any, *, fits: Callable[[Any], bool]) -> Any:
    """Check a number, (low, high), or four of these for (top, right, bottom, left); return it with plain numbers."""

    def side(item: Any) -> Any:
        if fits(item):
            return int(item) if fits is validation.is_whole else float(item)
        if validation.is_sequence(item, 2) and all(map(fits, item)) and item[0] <= item[1]:
            return side(item[0]), side(item[1])
        allowed = "a number, (low, high), or four of these, such as (-8, 8)"
        raise validation.fault(operation, field, value, allowed)

    return tuple(map(side, value)) if validation.is_sequence(value, 4) else side(value)


@dataclass(frozen=True)
class CropAndPad(Resampling):
    """Remove or add a random number of rows and columns at each side, and resize to the size of the image.

    Args:
        px: Rows and columns to add, in pixels; a negative number removes them. One number for all sides, (low, high) to draw
            from, or four of these: (top, right, bottom, left). ``high`` is excluded.
        percent: Rows and columns to add, as shares of height and width, in place of ``px`` and given like it; the drawn
            numbers are rounded towards 0.
        independent: Whether each side draws its own number, if one (low, high) is given.
        keep_size: Whether the result is resized to the size of the image.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.
        interpolation: See Resampling.
        antialias: See Resampling.
        mask_interpolation: See Resampling.

    Source: Albumentations CropAndPad.

    Example:
        >>> Recipe([CenterCrop(96), CropAndPad(px=(-8, 8))]).size
        (96, 96)
    """

    tolerance: ClassVar[float] = 0.01

    may_pad: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"sides": Numbers(4)}

    px: Annotated[Any, validation.optional(partial(_sides, fits=validation.is_whole))] = None
    percent: Annotated[Any, validation.optional(partial(_sides, fits=validation.is_number))] = None
    _: KW_ONLY
    independent: bool = True
    keep_size: bool = True
    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: MaskValue = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.px is None) == (self.percent is None):
            raise RecipeError(
                "CropAndPad needs either px or percent, "
                f"got px={self.px!r} and percent={self.percent!r}: for example px=(-8, 8)"
            )

    @property
    def moves_pixels_only(self) -> bool:
        """True unless it interpolates, or pads with a value between two multiples of 1/255."""
        moves = not self.keep_size or super().moves_pixels_only
        return moves and pads_whole(self)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]; see Resample."""
        added = self._added(drawn["sides"], sizes)
        cut = _leave_one(np.maximum(-added, 0), sizes)
        # (top, right, bottom, left): rows of one side that are cut off or added.
        change = np.maximum(added, 0) - cut
        shape = sizes + np.stack([change[:, 0] + change[:, 2], change[:, 1] + change[:, 3]], axis=1)
        return self._params(-change[:, [0, 3]], shape, sizes if self.keep_size else shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the smallest and the largest size of a result."""
        if self.keep_size:
            return sizes
        ends = [np.zeros((len(sizes), 4)), np.full((len(sizes), 4), np.nextafter(1, 0))]
        return np.concatenate([self.draw(u, sizes)["shape"] for u in ends])

    def _added(self, u: Uniforms, sizes: Sizes) -> Sizes:
        spans = self.px if self.px is not None else self.percent
        if not isinstance(spans, tuple):
            spans = (spans,) * 4
        elif len(spans) == 2:
            u = u if self.independent else np.repeat(u[:, :1], 4, axis=1)
            spans = (spans,) * 4
        ends = [span if isinstance(span, tuple) else (span, None) for span in spans]
        columns = []
        for side, (low, high) in enumerate(ends):
            if high is None:
                drawn = np.full(len(u), low, np.float64)
            elif self.px is not None:
                drawn = low + whole_below(u[:, side], max(high - low, 1)).astype(np.float64)
            else:
                drawn = low + u[:, side] * (high - low)
            columns.append(drawn if self.px is not None else drawn * sizes[:, side % 2])
        added: Sizes = np.stack(columns, axis=1).astype(np.int64)  # towards 0
        return added


def _leave_one(cut: Sizes, sizes: Sizes) -> Sizes:
    """Return how many rows and columns are removed, (top, right, bottom, left), reduced if none would be left."""
    cut = cut.copy()
    for axis, (first, last) in enumerate(((0, 2), (3, 1))):
        size = sizes[:, axis]
        gone = size - cut[:, first] - cut[:, last] < 1
        # Albumentations gives back size + 1 rows, the odd one of the first side.
        back = np.stack([(size + 2) // 2, (size + 1) // 2], axis=1)
        have = cut[:, [first, last]]
        short = back - have
        back = np.where(short[:, :1] > 0, np.stack([have[:, 0], back[:, 1] + short[:, 0]], 1), back)
        late = (short[:, :1] <= 0) & (short[:, 1:] > 0)
        back = np.where(late, np.stack([back[:, 0] + short[:, 1], have[:, 1]], 1), back)
        kept = np.maximum(have - back, 0)
        cut[:, first] = np.where(gone, kept[:, 0], cut[:, first])
        cut[:, last] = np.where(gone, kept[:, 1], cut[:, last])
        # What it gives back may not do, and there it fails.
        cut[:, first] = np.minimum(cut[:, first], size - 1)
        cut[:, last] = np.minimum(cut[:, last], size - 1 - cut[:, first])
    return cut
