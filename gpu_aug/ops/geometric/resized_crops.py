"""Operations that crop or pad an image, and resize the result."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.compiled.first_call import CompiledAtFirstCall
from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Law, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import (
    Range,
    Sizes,
    Uniforms,
    log_between,
    whole_below,
)
from gpu_aug.ops.geometric.borders import is_whole_fill
from gpu_aug.ops.geometric.resizes import Resampling
from gpu_aug.ops.geometric.spatial import Fill, MaskValue, PaddingMode, Pair

__all__ = ["CropAndPad", "RandomResizedCrop", "RandomSizedCrop"]

_NUM_TRIES = 10  # torchvision's number, for RandomResizedCrop
_RATIO = (3 / 4, 4 / 3)

_int64: Any = np.int64  # compiled code makes plain whole numbers with it


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
        """Return ``start`` and ``shape``, int64 [B, 2], beside the fixed ``resize``."""
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

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Every image becomes ``size``."""
        return np.array([self.size])


@CompiledAtFirstCall
def _first_that_fits(
    sizes: Any, shares: Any, ratios: Any, corners: Any, narrowest: float, widest: float, starts: Any, shapes: Any,
) -> None:  # fmt: skip
    """Write the rectangle of every image: the first try that fits, else the largest allowed one in the middle.

    Args:
        sizes: int64 [B, 2], height and width.
        shares: float64 [B, n], the share of the area of each try.
        ratios: float64 [B, n], its width / height. Its exponential is taken by numpy, for the compiled one has
            other last bits.
        corners: float64 [B, 2], uniform numbers for top and left.
        narrowest: Smallest width / height.
        widest: Largest.
        starts: int64 [B, 2], is written.
        shapes: int64 [B, 2], is written.
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

    random: ClassVar[Random] = {"height": Integer("min_max_height"), "place": Numbers(2)}

    min_max_height: Annotated[tuple[int, int], validation.IntegerRange(low=1, example="(64, 128)")]
    size: Pair
    _: KW_ONLY
    w2h_ratio: Annotated[float, validation.Number(low=0, above=True, example="1.0")] = 1.0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2], beside the fixed ``resize``."""
        height = drawn["height"]
        wanted = np.stack([height, (height * self.w2h_ratio).astype(np.int64)], axis=1)
        shape = np.clip(wanted, 1, sizes)
        return self._params(whole_below(drawn["place"], sizes - shape + 1), shape, self.size)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Every image becomes ``size``."""
        return np.array([self.size])


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
        padding_mode: Values outside the image: see PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.
        interpolation: See Resampling.
        antialias: See Resampling.
        mask_interpolation: See Resampling.

    Source: Albumentations CropAndPad.
    """

    tolerance: ClassVar[float] = 0.01

    may_pad: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"sides": Numbers(4)}

    px: Any = None
    percent: Any = None
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
        if self.px is not None:
            self._set(px=_sided("px", self.px, validation.is_whole, int))
        else:
            self._set(percent=_sided("percent", self.percent, validation.is_number, float))

    @property
    def moves_pixels_only(self) -> bool:
        """Unless it interpolates, or pads with a value between two whole 1/255."""
        moves = not self.keep_size or super().moves_pixels_only
        return moves and (self.padding_mode != "constant" or is_whole_fill(self.fill))

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, ``shape`` and ``resize``, int64 [B, 2]."""
        added = self._added(drawn["sides"], sizes)
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


def _sided(field: str, value: Any, fits: Any, kind: Any) -> Any:
    """Return a number, (low, high), or four of these."""

    def one(item: Any) -> Any:
        if fits(item):
            return kind(item)
        if validation.is_sequence(item, 2) and all(map(fits, item)) and item[0] <= item[1]:
            return kind(item[0]), kind(item[1])
        raise validation.fault(
            "CropAndPad", field, value, "a number, (low, high), or four of these, such as (-8, 8)"
        )

    return tuple(map(one, value)) if validation.is_sequence(value, 4) else one(value)


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
