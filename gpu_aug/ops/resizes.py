"""Operations that resample images to another size."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import fields
from gpu_aug.ops.crops import padding_fields
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.sampling import (
    Sizes,
    Uniforms,
    between,
    log_between,
    whole_below,
    whole_between,
)
from gpu_aug.ops.spatial import Fill, PaddingMode, Resample

__all__ = [
    "CropAndPad",
    "LongestMaxSize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomScale",
    "RandomShortestSize",
    "RandomSizedCrop",
    "Resize",
    "ScaleJitter",
    "SmallestMaxSize",
    "letterbox",
]

_NUM_TRIES = 10  # torchvision's number, for RandomResizedCrop
_RATIO = (3 / 4, 4 / 3)

EXACT = ("nearest", "nearest_floor")
"""Interpolations that invent no values."""

RESAMPLINGS = (*EXACT, "bilinear", "bicubic", "area")
Resampled = Literal["nearest", "nearest_floor", "bilinear", "bicubic", "area"]
Pair = int | tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Resampling(Resample, abstract=True):
    """A change of size that says how it resamples.

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
    # antialiasing both engines run the same code.
    tolerance: ClassVar[float] = 0.01

    interpolation: Resampled = "bilinear"  # type: ignore[assignment]
    antialias: bool = True
    mask_interpolation: Literal["nearest", "nearest_floor"] = "nearest"
    area_for_downscale: bool = False

    @property
    def moves_pixels_only(self) -> bool:
        """Where no value is interpolated."""
        return self.interpolation in EXACT and not self.area_for_downscale

    def _params(self, start: Sizes, shape: Sizes, resize: Any) -> Params:
        """Return the parameters of "cut this rectangle and resample it"."""
        params = resample_params(start, shape, resize)
        if self.area_for_downscale:
            params["area"] = np.asarray((params["resize"] < params["shape"]).any(axis=1))
        return params

    def _check_resampling(self) -> None:
        name = type(self).__name__
        way = fields.choice(name, "interpolation", self.interpolation, RESAMPLINGS)
        self._set(
            interpolation=way,
            antialias=bool(self.antialias) and way in ("bilinear", "bicubic"),
            mask_interpolation=fields.choice(
                name, "mask_interpolation", self.mask_interpolation, EXACT
            ),
            area_for_downscale=bool(self.area_for_downscale),
        )


@dataclass(frozen=True)
class RandomResizedCrop(Resampling):
    """Cut a random part of the image and resample it to one size.

    Args:
        size: (height, width) of the result; one number is a square.
        scale: Smallest and largest area of the part, as a share of the image.
        ratio: Smallest and largest width / height of the part; drawn log-uniformly.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 RandomResizedCrop: ten tries, then the largest centred part whose
    ratio is allowed. Drawn for a whole batch at once, from numbers of our own.
    """

    size: Pair
    _: KW_ONLY
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = _RATIO

    def __post_init__(self) -> None:
        name = "RandomResizedCrop"
        self._check_resampling()
        self._set(
            size=fields.height_width(name, "size", self.size),
            scale=fields.interval(
                name, "scale", self.scale, low=0, above=True, example="(0.08, 1.0)"
            ),
            ratio=fields.interval(
                name, "ratio", self.ratio, low=0, above=True, example="(0.75, 1.333)"
            ),
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
        return self._params(start, shape, self.size)

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
class RandomSizedCrop(Resampling):
    """Cut out a part of random height and fixed ratio, and resample it to one size.

    Args:
        min_max_height: Smallest and largest height of the part in pixels, both included; what
            is larger than the image is cut to it.
        size: (height, width) of the result; one number is a square.
        w2h_ratio: Width / height of the part.
        interpolation: See Resampling; and so the others.

    Source: Albumentations RandomSizedCrop.
    """

    min_max_height: tuple[int, int]
    size: Pair
    _: KW_ONLY
    w2h_ratio: float = 1.0

    def __post_init__(self) -> None:
        name = "RandomSizedCrop"
        self._check_resampling()
        self._set(
            min_max_height=fields.whole_interval(
                name, "min_max_height", self.min_max_height, low=1, example="(64, 128)"
            ),
            size=fields.height_width(name, "size", self.size),
            w2h_ratio=positive(name, "w2h_ratio", self.w2h_ratio),
        )

    @property
    def num_uniforms(self) -> int:
        """The height, top and left."""
        return 3

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2], beside the fixed ``resize``."""
        height = whole_between(u[:, 0], self.min_max_height)
        wanted = np.stack([height, (height * self.w2h_ratio).astype(np.int64)], axis=1)
        shape = np.clip(wanted, 1, sizes)
        return self._params(whole_below(u[:, 1:], sizes - shape + 1), shape, self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:  # noqa: ARG002 - any size
        """Every image becomes ``size``."""
        return np.array([self.size])


@dataclass(frozen=True)
class Whole(Resampling, abstract=True):
    """Resamples the whole image."""

    def _whole(self, sizes: Sizes, resize: Any) -> Params:
        return self._params(np.zeros_like(sizes), sizes, resize)


@dataclass(frozen=True)
class Resize(Whole):
    """Resample the whole image.

    Args:
        size: (height, width) of the result; one number is the length of the shorter side; None
            leaves it to ``max_size``.
        max_size: Largest length of the longer side, where ``size`` is one number; its length,
            where ``size`` is None.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 Resize, with its rounding: the other side is rounded down.
    """

    size: int | tuple[int, int] | None
    max_size: int | None = None

    def __post_init__(self) -> None:
        self._check_resampling()
        if self.max_size is not None:
            self._set(
                max_size=fields.whole("Resize", "max_size", self.max_size, low=1, example="512")
            )
        if self.size is not None:
            pair = fields.height_width("Resize", "size", self.size)
            self._set(size=pair[0] if fields.is_whole(self.size) else pair)
        if self.size is None and self.max_size is None:
            raise fields.fault("Resize", "size", None, "one or two whole numbers, for example 224")
        if self.max_size is None or self.size is None:
            return
        if not isinstance(self.size, int) or self.max_size <= self.size:
            raise RecipeError(
                "Resize max_size must be larger than size, and size one number, "
                f"got size={self.size!r} and max_size={self.max_size!r}"
            )

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - nothing is random
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        return self._whole(sizes, self.possible_sizes(sizes))

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


@dataclass(frozen=True, kw_only=True)
class MaxSize(Whole, abstract=True):
    """A resampling by one factor for both sides, which follows from the image's size."""

    def _check_max_size(self) -> None:
        name = type(self).__name__
        max_size, max_size_hw = self.max_size, self.max_size_hw  # type: ignore[attr-defined]
        if (max_size is None) == (max_size_hw is None):
            raise RecipeError(
                f"{name} needs either max_size or max_size_hw, "
                f"got max_size={max_size!r} and max_size_hw={max_size_hw!r}: for example max_size=512"
            )
        if max_size is not None:
            self._set(max_size=several(name, "max_size", max_size))
            return
        if (
            not fields.is_sequence(max_size_hw, 2)
            or all(side is None for side in max_size_hw)
            or not all(side is None or (fields.is_whole(side) and side > 0) for side in max_size_hw)
        ):
            raise fields.fault(
                name,
                "max_size_hw",
                max_size_hw,
                "(height, width), one may be None, such as (480, 640)",
            )
        self._set(max_size_hw=tuple(None if s is None else int(s) for s in max_size_hw))

    @property
    def num_uniforms(self) -> int:
        """One, where there are several sizes to choose from."""
        return int(isinstance(self.max_size, tuple))  # type: ignore[attr-defined]

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        choices = self._choices(sizes)
        chosen = whole_below(u[:, 0], len(choices)) if len(choices) > 1 else 0
        return self._whole(sizes, choices[chosen, np.arange(len(sizes))])

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
            # The side that would become too large decides, or too small.
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

    max_size: int | tuple[int, ...] | None = None
    max_size_hw: tuple[int | None, int | None] | None = None

    _pick: ClassVar[Any] = staticmethod(np.max)
    _pick_factor: ClassVar[Any] = staticmethod(np.min)

    def __post_init__(self) -> None:
        self._check_resampling()
        self._check_max_size()


@dataclass(frozen=True)
class SmallestMaxSize(MaxSize):
    """Resample so that the shorter side has one length.

    Args:
        max_size: The length; several are drawn from.
        max_size_hw: (height, width) that the result shall cover; one may be None.
        interpolation: See Resampling; and so the others.

    Source: Albumentations SmallestMaxSize, with its rounding: to the nearest, ties to even.
    """

    max_size: int | tuple[int, ...] | None = None
    max_size_hw: tuple[int | None, int | None] | None = None

    _pick: ClassVar[Any] = staticmethod(np.min)
    _pick_factor: ClassVar[Any] = staticmethod(np.max)

    def __post_init__(self) -> None:
        self._check_resampling()
        self._check_max_size()


@dataclass(frozen=True)
class RandomScale(Whole):
    """Resample both sides by one random factor.

    Args:
        scale: Smallest and largest factor; sides are rounded down.
        interpolation: See Resampling; and so the others.

    Source: Albumentations RandomScale, whose ``scale_limit`` is counted from 1.
    """

    scale: tuple[float, float] = (0.9, 1.1)

    def __post_init__(self) -> None:
        self._check_resampling()
        example = "(0.9, 1.1)"
        self._set(
            scale=fields.interval(
                "RandomScale", "scale", self.scale, low=0, above=True, example=example
            )
        )

    @property
    def num_uniforms(self) -> int:
        """The factor."""
        return 1

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        return self._whole(sizes, scaled(sizes, between(u, self.scale)))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest."""
        return np.concatenate([scaled(sizes, factor) for factor in self.scale])


@dataclass(frozen=True)
class RandomResize(Whole):
    """Resample so that the shorter side has a random length.

    Args:
        min_size: Smallest length.
        max_size: Largest length, which is not drawn itself.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 RandomResize.
    """

    min_size: int
    max_size: int

    def __post_init__(self) -> None:
        self._check_resampling()
        self._set(
            min_size=fields.whole("RandomResize", "min_size", self.min_size, low=1, example="224")
        )
        low = self.min_size + 1
        self._set(
            max_size=fields.whole("RandomResize", "max_size", self.max_size, low=low, example="512")
        )

    @property
    def num_uniforms(self) -> int:
        """The length."""
        return 1

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        length = self.min_size + whole_below(u, self.max_size - self.min_size)
        return self._whole(sizes, shorter_sides(sizes, length))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest."""
        lengths = (self.min_size, self.max_size - 1)
        return np.concatenate([shorter_sides(sizes, length) for length in lengths])


@dataclass(frozen=True)
class RandomShortestSize(Whole):
    """Resample so that the shorter side has a length drawn from a list.

    Args:
        min_size: The lengths to draw from.
        max_size: Largest length of the longer side.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 RandomShortestSize; both sides are rounded down.
    """

    min_size: int | tuple[int, ...]
    max_size: int | None = None

    def __post_init__(self) -> None:
        name = "RandomShortestSize"
        self._check_resampling()
        self._set(min_size=several(name, "min_size", self.min_size))
        if self.max_size is not None:
            self._set(max_size=fields.whole(name, "max_size", self.max_size, low=1, example="1333"))

    @property
    def num_uniforms(self) -> int:
        """The length."""
        return 1

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        lengths = self._lengths
        return self._whole(sizes, self._resized(sizes, lengths[whole_below(u, len(lengths))]))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """One for each length."""
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
class ScaleJitter(Whole):
    """Resample to a random share of the largest size that fits into a target.

    Args:
        target_size: (height, width), of which torchvision takes the second for the height and
            the first for the width of the image; so it does here.
        scale_range: Smallest and largest share.
        interpolation: See Resampling; and so the others.

    Source: torchvision v2 ScaleJitter; both sides are rounded down.
    """

    target_size: Pair
    scale_range: tuple[float, float] = (0.1, 2.0)

    def __post_init__(self) -> None:
        name = "ScaleJitter"
        self._check_resampling()
        self._set(
            target_size=fields.height_width(name, "target_size", self.target_size),
            scale_range=fields.interval(
                name, "scale_range", self.scale_range, low=0, above=True, example="(0.1, 2.0)"
            ),
        )

    @property
    def num_uniforms(self) -> int:
        """The share."""
        return 1

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        return self._whole(sizes, self._resized(sizes, between(u, self.scale_range)))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest."""
        return np.concatenate([self._resized(sizes, share) for share in self.scale_range])

    def _resized(self, sizes: Sizes, share: Any) -> Sizes:
        target = np.array(self.target_size)[::-1]
        return scaled(sizes, (target / sizes).min(axis=1, keepdims=True) * share)


@dataclass(frozen=True)
class CropAndPad(Resampling):
    """Cut off or add a drawn number of rows and columns at each side; resample to the old size.

    Args:
        px: In pixels, negative cuts off: a number for all sides, (low, high) to draw from, or
            four of these: (top, right, bottom, left). ``high`` is not drawn itself.
        percent: The same in shares of height and width, (low, high) drawn uniformly and rounded
            towards 0. Give one of ``px`` and ``percent``.
        independent: Whether each side draws for itself, where one (low, high) is given.
        keep_size: Whether the result is resampled to the size that the image had.
        padding_mode: What lies beside the image: see PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.
        interpolation: See Resampling.
        antialias: See Resampling.
        mask_interpolation: See Resampling.

    Source: Albumentations CropAndPad.
    """

    tolerance: ClassVar[float] = 0.01

    px: Any = None
    percent: Any = None
    _: KW_ONLY
    independent: bool = True
    keep_size: bool = True
    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: int = 0

    def __post_init__(self) -> None:
        self._check_resampling()
        self._set(**padding_fields(self))
        if (self.px is None) == (self.percent is None):
            raise RecipeError(
                "CropAndPad needs either px or percent, "
                f"got px={self.px!r} and percent={self.percent!r}: for example px=(-8, 8)"
            )
        self._set(independent=bool(self.independent), keep_size=bool(self.keep_size))
        if self.px is not None:
            self._set(px=_sided("px", self.px, fields.is_whole, int))
        else:
            self._set(percent=_sided("percent", self.percent, fields.is_number, float))

    @property
    def may_pad(self) -> bool:
        """Always."""
        return True

    @property
    def moves_pixels_only(self) -> bool:
        """Unless it interpolates, or pads with a value between two whole 1/255."""
        moves = not self.keep_size or super().moves_pixels_only
        return moves and (self.padding_mode != "constant" or is_whole_fill(self.fill))

    @property
    def num_uniforms(self) -> int:
        """One per side."""
        return 4

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        added = self._added(u, sizes)
        cut = _leave_one(np.maximum(-added, 0), sizes)
        # (top, right, bottom, left): rows of one side that are cut off or added.
        change = np.maximum(added, 0) - cut
        shape = sizes + np.stack([change[:, 0] + change[:, 2], change[:, 1] + change[:, 3]], axis=1)
        return self._params(-change[:, [0, 3]], shape, sizes if self.keep_size else shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest result."""
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


def letterbox(
    size: Pair,
    *,
    fill: Fill = 0.0,
    fill_mask: int = 0,
    interpolation: Resampled = "bilinear",
    antialias: bool = True,
) -> tuple[Operation, Operation]:
    """Return the two operations that fit an image into a size and pad the rest, for ``[*letterbox(640)]``.

    Args:
        size: (height, width) of the result; one number is a square.
        fill: What lies beside the image, one value or three in [0, 1].
        fill_mask: The same for masks.
        interpolation: See Resampling.
        antialias: See Resampling.
    """
    from gpu_aug.ops.crops import PadIfNeeded

    inside = fields.height_width("letterbox", "size", size)
    return (
        LongestMaxSize(max_size_hw=inside, interpolation=interpolation, antialias=antialias),
        PadIfNeeded(inside, fill=fill, fill_mask=fill_mask),
    )


def resample_params(start: Sizes, shape: Sizes, resize: Any) -> Params:
    """Return the parameters of "cut this rectangle and resample it"."""
    resize = np.array(np.broadcast_to(np.array(resize), shape.shape))
    return {
        "apply": np.ones(len(shape), bool),
        "start": np.array(start),
        "shape": np.array(shape),
        "resize": resize,
    }


def scaled(sizes: Sizes, factor: Any) -> Sizes:
    """Return sizes times a factor, rounded down, at least 1."""
    results: Sizes = np.maximum((sizes * factor).astype(np.int64), 1)
    return results


def shorter_sides(sizes: Sizes, length: Any) -> Sizes:
    """Return sizes whose shorter side is ``length``, the other rounded down."""
    shorter = sizes.min(axis=1, keepdims=True)
    results: Sizes = np.where(sizes == shorter, length, (length * sizes / shorter).astype(np.int64))
    return results


def several(name: str, field: str, value: Any) -> int | tuple[int, ...]:
    """Return a length, or several."""
    values = (value,) if fields.is_whole(value) else value
    if (
        not isinstance(values, Sequence)
        or isinstance(values, str)
        or not values
        or not all(fields.is_whole(item) and item > 0 for item in values)
    ):
        raise fields.fault(
            name, field, value, "one or more whole numbers of at least 1, for example 512"
        )
    return int(values[0]) if len(values) == 1 else tuple(int(item) for item in values)


def positive(name: str, field: str, value: Any) -> float:
    """Return a number above 0."""
    number = fields.number(name, field, value)
    if number <= 0:
        raise fields.fault(name, field, value, "a number above 0, for example 1.0")
    return number


def is_whole_fill(fill: Fill) -> bool:
    """Whether a padding is a whole 1/255."""
    fills = np.atleast_1d(fill) * 255
    return bool((np.abs(fills - np.rint(fills)) < 1e-6).all())


def _sided(field: str, value: Any, fits: Any, kind: Any) -> Any:
    """Return a number, (low, high), or four of these."""

    def one(item: Any) -> Any:
        if fits(item):
            return kind(item)
        if fields.is_sequence(item, 2) and all(map(fits, item)) and item[0] <= item[1]:
            return kind(item[0]), kind(item[1])
        raise fields.fault(
            "CropAndPad", field, value, "a number, (low, high), or four of these, such as (-8, 8)"
        )

    return tuple(map(one, value)) if fields.is_sequence(value, 4) else one(value)


def _leave_one(cut: Sizes, sizes: Sizes) -> Sizes:
    """Cut less, (top, right, bottom, left), where no row or no column would be left."""
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
