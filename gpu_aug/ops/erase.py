"""Operations that paint over part of an image."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params, philox4x32
from gpu_aug.errors import RecipeError
from gpu_aug.noise import keys
from gpu_aug.ops import fields
from gpu_aug.ops.crops import mask_value
from gpu_aug.ops.operation import Operation
from gpu_aug.ops.resizes import is_whole_fill
from gpu_aug.ops.sampling import (
    Sizes,
    Uniforms,
    between,
    log_between,
    orders,
    whole_below,
    whole_between,
)

__all__ = [
    "CoarseDropout",
    "Erasing",
    "GridDropout",
    "GridMask",
    "PixelDropout",
    "RandomErasing",
    "RandomGridShuffle",
    "XYMasking",
]

_NUM_TRIES = 10  # torchvision's number

Paint = float | tuple[float, float, float] | Literal["random", "random_uniform", "normal"]
PAINTS = ("random", "random_uniform", "normal")
Range = tuple[float, float] | tuple[int, int]


class Holes(Operation, abstract=True):
    """Paints rectangles.

    Its draw has ``holes``, int64 [B, N, 4]: top, left, bottom, right, half open and inside the
    image; empty ones are allowed. N may depend on the sizes of the batch. Where ``paint`` is
    "random" or "normal" it has ``key``, uint32 [B, 2], of the noise; where it is "random_uniform"
    it has ``colours``, float64 [B, N, 3].

    Attributes:
        fill_mask: What the same rectangles of masks are filled with; None leaves masks alone.
    """

    fill_mask: int | None = None

    @property
    @abstractmethod
    def paint(self) -> Paint:
        """What is painted: one value, three, or what is random.

        "random" is a uniform value in [0, 1) per pixel and channel, "normal" a standard normal one,
        "random_uniform" a uniform colour in [0, 1) per rectangle, where later ones cover earlier ones.
        """

    @property
    def moves_pixels_only(self) -> bool:
        """Where a whole 1/255 is painted."""
        return not isinstance(self.paint, str) and is_whole_fill(self.paint)


@dataclass(frozen=True)
class Dropout(Holes, abstract=True):
    """Rectangles filled as Albumentations does.

    Attributes:
        fill: One value or three, in the values of this place in the recipe: [0, 1] before
            Normalize; "random" is a uniform value in [0, 1) per pixel and channel,
            "random_uniform" a uniform colour per rectangle.
        fill_mask: What the same rectangles of masks are filled with; None leaves masks alone.
        p: Share of the images that are changed.
    """

    _: KW_ONLY
    fill: float | tuple[float, float, float] | Literal["random", "random_uniform"] = 0.0
    fill_mask: int | None = None
    p: float = 0.5

    def _check_fill(self) -> None:
        name = type(self).__name__
        self._set(
            fill=checked_paint(name, "fill", self.fill, PAINTS[:2]),
            fill_mask=None if self.fill_mask is None else mask_value(name, self.fill_mask),
            p=fields.probability(name, self.p),
        )

    @property
    def paint(self) -> Paint:
        """``fill``."""
        return self.fill

    def _params(self, apply: Any, holes: Sizes, u: Uniforms) -> Params:
        """Return the parameters; ``u`` is float64 [B, 2], for what is random in the filling."""
        return hole_params(apply, holes, self.paint, keys(u))


@dataclass(frozen=True)
class RandomErasing(Holes):
    """Paint one random rectangle, with probability ``p``.

    Args:
        p: Share of the images that are changed, but for those where no try fitted.
        scale: Smallest and largest area of the rectangle, as a share of the image.
        ratio: Smallest and largest height / width of the rectangle; drawn log-uniformly.
        value: What is painted, one value or three, in the values of this place in the recipe:
            [0, 1] before Normalize, normalised after it. "random" is standard normal noise.
        fill_mask: What the same rectangle of masks is filled with; None leaves masks alone.

    Source: torchvision v2 RandomErasing: ten tries, then the image stays as it is.
    """

    p: float = 0.5
    _: KW_ONLY
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | tuple[float, float, float] | Literal["random"] = 0.0
    fill_mask: int | None = None

    def __post_init__(self) -> None:
        name = "RandomErasing"
        self._set(
            p=fields.probability(name, self.p),
            scale=fields.interval(name, "scale", self.scale, low=0, high=1, example="(0.02, 0.33)"),
            ratio=fields.interval(
                name, "ratio", self.ratio, low=0, above=True, example="(0.3, 3.3)"
            ),
            value=checked_paint(name, "value", self.value, ("random",)),
            fill_mask=None if self.fill_mask is None else mask_value(name, self.fill_mask),
        )

    @property
    def paint(self) -> Paint:
        """``value``."""
        return "normal" if self.value == "random" else self.value

    @property
    def num_uniforms(self) -> int:
        """The gate, an area and a ratio per try, a place, and a key for noise."""
        return 1 + 2 * _NUM_TRIES + 2 + 2 * (self.value == "random")

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``; ``apply`` is off where no try fitted."""
        area = sizes.prod(axis=1, keepdims=True) * between(u[:, 1 : 1 + _NUM_TRIES], self.scale)
        ratio = log_between(u[:, 1 + _NUM_TRIES : 1 + 2 * _NUM_TRIES], self.ratio)
        shapes = np.rint(np.sqrt(np.stack([area * ratio, area / ratio], axis=2))).astype(np.int64)

        fits = (shapes < sizes[:, None]).all(axis=2)
        first = fits.argmax(axis=1)
        found = fits.any(axis=1)
        drawn = np.take_along_axis(shapes, first[:, None, None], axis=1)[:, 0]
        shape = np.where(found[:, None], drawn, 0)
        place = 1 + 2 * _NUM_TRIES
        start = whole_below(u[:, place : place + 2], sizes - shape + 1)
        seen = (shape > 0).all(axis=1)
        holes = np.concatenate([start, start + shape], axis=1)[:, None]
        return hole_params((u[:, 0] < self.p) & seen, holes, self.paint, keys(u[:, -2:]))


@dataclass(frozen=True)
class Erasing(Dropout):
    """Paint one random rectangle, with probability ``p``, by the law of Albumentations.

    Args:
        scale: Smallest and largest area of the rectangle, as a share of the image.
        ratio: Smallest and largest width / height of the rectangle; drawn uniformly.
        fill: See Dropout; and so the others.

    Source: Albumentations Erasing: the area is drawn up to what the ratios allow, then the ratio
    of those that fit; nothing is painted where none does.
    """

    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)

    def __post_init__(self) -> None:
        self._check_fill()
        self._set(
            scale=fields.interval("Erasing", "scale", self.scale, low=0, example="(0.02, 0.33)"),
            ratio=fields.interval(
                "Erasing", "ratio", self.ratio, low=0, above=True, example="(0.3, 3.3)"
            ),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, area, ratio, top, left, and what is random in the filling."""
        return 7

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``; ``apply`` is off where none fits."""
        height, width = sizes.T.astype(np.float64)
        narrow, wide = self.ratio
        least, most = (height * width * share for share in self.scale)
        most = np.minimum(most, np.minimum(narrow * height**2, width**2 / wide))
        area = least + u[:, 1] * np.maximum(most - least, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            highest = np.minimum(wide, width**2 / area)
            lowest = np.maximum(narrow, area / height**2)
            ratio = lowest + u[:, 2] * np.maximum(highest - lowest, 0)
            shape = np.rint(np.sqrt(np.stack([area / ratio, area * ratio], axis=1)))
        fits = (most >= least) & (lowest <= highest)
        inside: Sizes = np.where(fits[:, None], np.clip(shape, 0, sizes), 0).astype(np.int64)
        start = whole_below(u[:, 3:5], sizes - inside + 1)
        seen = (inside > 0).all(axis=1)
        holes = np.concatenate([start, start + inside], axis=1)[:, None]
        return self._params((u[:, 0] < self.p) & seen, holes, u[:, 5:7])


@dataclass(frozen=True)
class CoarseDropout(Dropout):
    """Paint several random rectangles, with probability ``p``.

    Args:
        num_holes: Smallest and largest number of rectangles, both included.
        hole_height: Smallest and largest height: whole pixels, both included, where the largest
            is at least 1; else shares of the image, from 0.
        hole_width: The same for the width, in what ``hole_height`` is in.
        fill: See Dropout; and so the others.

    Source: Albumentations CoarseDropout.
    """

    num_holes: tuple[int, int] = (1, 2)
    hole_height: Range = (0.1, 0.2)
    hole_width: Range = (0.1, 0.2)

    def __post_init__(self) -> None:
        name = "CoarseDropout"
        self._check_fill()
        self._set(
            num_holes=fields.whole_interval(
                name, "num_holes", self.num_holes, low=1, example="(1, 8)"
            )
        )
        for field in ("hole_height", "hole_width"):
            ends = fields.interval(name, field, getattr(self, field), low=0, example="(0.1, 0.2)")
            self._set(**{field: ends})
        if self.hole_height[1] < 1 <= self.hole_width[1]:
            raise RecipeError(
                f"{name} hole_height and hole_width must both be shares below 1 or both be pixels, "
                f"got {self.hole_height!r} and {self.hole_width!r}"
            )

    @property
    def num_uniforms(self) -> int:
        """The gate, the number, two sides and two places per rectangle, and the filling."""
        return 2 + 4 * self.num_holes[1] + 2

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``."""
        number = whole_between(u[:, 1], self.num_holes)
        numbers = u[:, 2:-2].reshape(len(u), -1, 4)
        shape = np.stack(
            [
                self._side(numbers[:, :, 0], self.hole_height, sizes[:, :1]),
                self._side(numbers[:, :, 1], self.hole_width, sizes[:, 1:]),
            ],
            axis=2,
        )
        start = whole_below(numbers[:, :, 2:], sizes[:, None] - shape + 1)
        holes = np.concatenate([start, start + shape], axis=2)
        holes[np.arange(self.num_holes[1]) >= number[:, None]] = 0
        return self._params(u[:, 0] < self.p, holes, u[:, -2:])

    def _side(self, u: Uniforms, ends: Range, size: Sizes) -> Sizes:
        if self.hole_height[1] < 1:
            side: Sizes = (size * between(u, ends)).astype(np.int64)
            return side
        largest = np.minimum(int(ends[1]), size)
        smallest = np.minimum(int(ends[0]), largest)
        return smallest + whole_below(u, largest - smallest + 1)


@dataclass(frozen=True)
class GridDropout(Dropout):
    """Divide the image into cells and paint a rectangle in each, with probability ``p``.

    Args:
        ratio: Side of a rectangle as a share of its cell's, above 0, rounded down; at least one
            pixel, and at least one less than the cell.
        random_offset: Whether each rectangle stands at a random place of its cell.
        unit_size_range: Smallest and largest side of a cell in pixels, from 2; the largest is not
            drawn itself.
        grid: Number of cells along (height, width), in place of ``unit_size_range``. Without both,
            cells are a tenth of the image.
        shift_xy: Where the rectangles stand in their cells, (x, y), if not at random.
        fill: See Dropout; and so the others.

    Where a side is no multiple of its number of cells, which cells are one pixel larger is random.

    Source: Albumentations GridDropout, whose ``holes_number_xy`` counts rows first.
    """

    ratio: float = 0.5
    random_offset: bool = True
    unit_size_range: tuple[int, int] | None = None
    grid: tuple[int, int] | None = None
    shift_xy: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        name = "GridDropout"
        self._check_fill()
        ratio = fields.number(name, "ratio", self.ratio)
        if not 0 < ratio <= 1:
            raise fields.fault(name, "ratio", ratio, "a share above 0 up to 1, for example 0.5")
        self._set(ratio=ratio, random_offset=bool(self.random_offset))
        if self.unit_size_range is not None:
            ends = fields.whole_interval(
                name, "unit_size_range", self.unit_size_range, low=2, example="(10, 20)"
            )
            self._set(unit_size_range=ends)
        for field, low in (("grid", 1), ("shift_xy", 0)):
            pair = getattr(self, field)
            if pair is None:
                continue
            if not fields.is_sequence(pair, 2) or not all(
                fields.is_whole(item) and item >= low for item in pair
            ):
                raise fields.fault(
                    name, field, pair, f"two whole numbers from {low}, such as (5, 4)"
                )
            self._set(**{field: (int(pair[0]), int(pair[1]))})

    @property
    def num_uniforms(self) -> int:
        """The gate, the side of the cells, a key for the rest, and the filling."""
        return 6

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``."""
        grid = self._grid(u[:, 1], sizes)
        each = [
            self._holes(number, cells, size)
            for number, cells, size in zip(keys(u[:, 2:4]), grid, sizes, strict=True)
        ]
        holes = np.zeros((len(u), max(map(len, each), default=0), 4), np.int64)
        for row, found in enumerate(each):
            holes[row, : len(found)] = found
        return self._params(u[:, 0] < self.p, holes, u[:, 4:6])

    def _grid(self, u: Uniforms, sizes: Sizes) -> Sizes:
        """Return the number of cells along height and width."""
        if self.grid is not None:
            grid: Sizes = np.minimum(np.array(self.grid), sizes)
        elif self.unit_size_range is not None:
            low, high = self.unit_size_range
            unit = low + whole_below(u, max(high - low, 1))
            grid = sizes // unit[:, None]
        else:
            grid = sizes // np.maximum(2, sizes // 10)
        return np.maximum(grid, 1)

    def _holes(self, key: NDArray[np.uint32], grid: Sizes, size: Sizes) -> Sizes:
        """Return the rectangles of one image."""
        rows, columns = grid.tolist()
        numbers = keyed_uniforms(key, rows + columns + 2 * rows * columns)
        along, down = np.split(numbers[: rows + columns], [columns])
        edges = [split_sides(size[0], down), split_sides(size[1], along)]
        cells = np.stack(np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij"), axis=-1)
        shape = np.stack(np.meshgrid(*map(np.diff, edges), indexing="ij"), axis=-1)
        shape, cells = shape.reshape(-1, 2), cells.reshape(-1, 2)
        # As numpy clips: the upper bound wins.
        hole = np.minimum(np.maximum(shape * self.ratio, 1), shape - 1).astype(np.int64)
        if self.random_offset:
            offset = whole_below(numbers[rows + columns :].reshape(-1, 2), shape - hole + 1)
        else:
            offset = np.broadcast_to(np.array(self.shift_xy)[::-1], hole.shape)
        start = np.clip(cells + offset, 0, size - hole)
        return np.concatenate([start, np.minimum(start + hole, size)], axis=1)


@dataclass(frozen=True)
class GridMask(Dropout):
    """Paint the squares of a regular grid, with probability ``p``.

    Args:
        d: Smallest period of the grid in pixels, at least 2, and the first that is not drawn.
        ratio: Share of each period, between 0 and 1, that is kept along a side.
        mode: "squares" paints the squares between the kept stripes; "stripes" paints the stripes
            instead, and keeps the squares.
        fill: See Dropout; and so the others.

    Source: Chen et al. 2020, "GridMask data augmentation", https://arxiv.org/abs/2001.04086, and the
    authors' code with mode=1 (or 0 for "stripes") and no rotation; d and ratio are their values
    for ImageNet.
    """

    d: tuple[int, int] = (96, 224)
    ratio: float = 0.6
    mode: Literal["squares", "stripes"] = "squares"

    def __post_init__(self) -> None:
        self._check_fill()
        ratio = fields.number("GridMask", "ratio", self.ratio)
        if not 0 < ratio < 1:
            raise fields.fault("GridMask", "ratio", ratio, "a share between 0 and 1, such as 0.6")
        ends = fields.whole_interval("GridMask", "d", self.d, low=2, example="(96, 224)")
        modes = ("squares", "stripes")
        self._set(d=ends, ratio=ratio, mode=fields.choice("GridMask", "mode", self.mode, modes))

    @property
    def num_uniforms(self) -> int:
        """The gate, the period, two shifts, and the filling."""
        return 6

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``."""
        low, high = self.d
        period = low + whole_below(u[:, 1], max(high - low, 1))
        kept = np.ceil(period * self.ratio).astype(np.int64)[:, None]
        # The authors' grid covers a square as large as the diagonal, centred on the image.
        diagonal = np.ceil(np.sqrt((sizes**2).sum(axis=1))).astype(np.int64)[:, None]
        shift = whole_below(u[:, 2:4], period[:, None]) - (diagonal - sizes) // 2
        first = shift % period[:, None] - period[:, None]  # of a stripe, at or before 0
        count = int((sizes.max(axis=1, initial=0) // period).max(initial=0)) + 2
        starts = first[:, None] + np.arange(count)[:, None] * period[:, None, None]
        stripes = np.stack([starts, starts + kept[:, None]], axis=1)  # [B, 2, count, axis]
        gaps = np.stack([starts + kept[:, None], starts + period[:, None, None]], axis=1)
        holes = self._rectangles(stripes, gaps, sizes)
        limits = np.concatenate([sizes, sizes], axis=1)[:, None]
        return self._params(u[:, 0] < self.p, np.clip(holes, 0, limits), u[:, 4:6])

    def _rectangles(self, stripes: Sizes, gaps: Sizes, sizes: Sizes) -> Sizes:
        num, _, count, _ = gaps.shape
        if self.mode == "squares":
            rows = np.repeat(gaps[..., 0].transpose(0, 2, 1), count, axis=1)
            columns = np.tile(gaps[..., 1].transpose(0, 2, 1), (1, count, 1))
        else:
            whole = np.stack([np.zeros_like(sizes), sizes], axis=1)[:, :, None]
            whole = np.broadcast_to(whole, (num, 2, count, 2))
            rows = np.concatenate([stripes[..., 0], whole[..., 0]], axis=2).transpose(0, 2, 1)
            columns = np.concatenate([whole[..., 1], stripes[..., 1]], axis=2).transpose(0, 2, 1)
        return np.stack([rows[..., 0], columns[..., 0], rows[..., 1], columns[..., 1]], axis=2)


@dataclass(frozen=True)
class XYMasking(Dropout):
    """Paint random vertical and horizontal stripes, with probability ``p``.

    Args:
        num_masks_x: Smallest and largest number of vertical stripes.
        num_masks_y: Smallest and largest number of horizontal stripes.
        mask_x_length: Smallest and largest width of the vertical ones, in pixels.
        mask_y_length: Smallest and largest height of the horizontal ones, in pixels.
        fill: See Dropout; and so the others.

    Source: Albumentations XYMasking. A stripe that is longer than the image covers it; there it
    is an error.
    """

    num_masks_x: int | tuple[int, int] = 0
    num_masks_y: int | tuple[int, int] = 0
    mask_x_length: int | tuple[int, int] = 0
    mask_y_length: int | tuple[int, int] = 0

    def __post_init__(self) -> None:
        self._check_fill()
        for field in ("num_masks_x", "num_masks_y", "mask_x_length", "mask_y_length"):
            value = getattr(self, field)
            ends = fields.whole_interval("XYMasking", field, value, low=0, example="(0, 10)")
            self._set(**{field: ends})

    @property
    def num_uniforms(self) -> int:
        """The gate, two numbers, a length and a place per stripe, and the filling."""
        return 3 + 2 * (self.num_masks_x[1] + self.num_masks_y[1]) + 2  # type: ignore[index]

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``holes``."""
        most = self.num_masks_x[1]  # type: ignore[index]
        numbers = u[:, 3:-2].reshape(len(u), -1, 2)
        holes = np.concatenate(
            [
                stripes(
                    numbers[:, :most], u[:, 1], self.num_masks_x, self.mask_x_length, sizes, axis=1
                ),
                stripes(
                    numbers[:, most:], u[:, 2], self.num_masks_y, self.mask_y_length, sizes, axis=0
                ),
            ],
            axis=1,
        )
        return self._params(u[:, 0] < self.p, holes, u[:, -2:])


@dataclass(frozen=True)
class PixelDropout(Operation):
    """Paint random pixels, with probability ``p``.

    Args:
        dropout_prob: Share of the pixels that are painted.
        per_channel: Whether each channel draws its own pixels.
        drop_value: What is painted, one value or three, in the values of this place in the
            recipe; None draws a colour per image, a whole number of 1/255 per channel.
        p: Share of the images that are changed.

    Masks, boxes and keypoints stay as they are.

    Source: Albumentations PixelDropout. Which pixels is a function of the drawn ``key``.
    """

    dropout_prob: float = 0.01
    _: KW_ONLY
    per_channel: bool = False
    drop_value: float | tuple[float, float, float] | None = 0.0
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "PixelDropout"
        share = fields.number(name, "dropout_prob", self.dropout_prob)
        if not 0 <= share <= 1:
            raise fields.fault(name, "dropout_prob", share, "a share from 0 to 1, for example 0.01")
        value = self.drop_value
        self._set(
            dropout_prob=share,
            per_channel=bool(self.per_channel),
            drop_value=None if value is None else fields.fill(name, "drop_value", value),
            p=fields.probability(name, self.p),
        )

    @property
    def moves_pixels_only(self) -> bool:
        """Where a whole 1/255 is painted."""
        return self.drop_value is None or is_whole_fill(self.drop_value)

    @property
    def num_uniforms(self) -> int:
        """The gate, the key and a colour."""
        return 6

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``key``, uint32 [B, 2], and ``colour``, float64 [B, 3]."""
        if self.drop_value is None:
            colour = whole_below(u[:, 3:], 256) / 255
        else:
            colour = np.array(np.broadcast_to(np.array(self.drop_value, np.float64), (len(u), 3)))
        return {"apply": u[:, 0] < self.p, "key": keys(u[:, 1:3]), "colour": colour}


@dataclass(frozen=True)
class RandomGridShuffle(Operation):
    """Cut the image into tiles and let tiles of one size change places, with probability ``p``.

    Args:
        grid: Number of tiles along (height, width).
        p: Share of the images that are changed.

    Where a side is no multiple of its number of tiles, which tiles are one pixel larger is random.
    Masks follow the image; boxes and keypoints cannot.

    Source: Albumentations RandomGridShuffle.
    """

    grid: tuple[int, int] = (3, 3)
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(
            grid=fields.height_width("RandomGridShuffle", "grid", self.grid),
            p=fields.probability("RandomGridShuffle", self.p),
        )

    @property
    def moves_pixels_only(self) -> bool:
        """Always."""
        return True

    @property
    def num_uniforms(self) -> int:
        """The gate, the order of the sides, and the order of the tiles."""
        return 1 + sum(self.grid) + self.grid[0] * self.grid[1]

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``tiles`` and ``sources``, int64 [B, N, 4]: what is shown where, and from where.

        Both are top, left, bottom, right; a tile and its source have one size.
        """
        rows, columns = self.grid
        tiles = np.zeros((len(u), rows * columns, 4), np.int64)
        sources = np.zeros_like(tiles)
        for row, numbers in enumerate(u):
            down, along, places = np.split(numbers[1:], [rows, rows + columns])
            top, left = split_sides(sizes[row, 0], down), split_sides(sizes[row, 1], along)
            cut = np.meshgrid(top[:-1], left[:-1], indexing="ij")
            stop = np.meshgrid(top[1:], left[1:], indexing="ij")
            tile = np.stack([side.ravel() for side in (*cut, *stop)], axis=1)
            shape = tile[:, 2:] - tile[:, :2]
            # Within each shape, the tiles in the order of their numbers.
            old = np.lexsort((np.arange(len(tile)), shape[:, 1], shape[:, 0]))
            new = np.lexsort((places, shape[:, 1], shape[:, 0]))
            tiles[row, old], sources[row, old] = tile[old], tile[new]
        return {"apply": u[:, 0] < self.p, "tiles": tiles, "sources": sources}


def hole_params(apply: Any, holes: Sizes, paint: Paint, key: NDArray[np.uint32]) -> Params:
    """Return the parameters of Holes; ``key``, uint32 [B, 2], is for what is random in the paint."""
    params: Params = {"apply": np.array(apply), "holes": np.ascontiguousarray(holes)}
    if paint == "random_uniform":
        colours = [keyed_uniforms(one, 3 * holes.shape[1]).reshape(-1, 3) for one in key]
        params["colours"] = np.array(colours).reshape(len(holes), -1, 3)
    elif isinstance(paint, str):
        params["key"] = key
    return params


def keyed_uniforms(key: NDArray[np.uint32], count: int) -> Uniforms:
    """Return uniform numbers in [0, 1), float64 [count], of one key: more of them than is known before."""
    counter = np.zeros((4, -(-count // 4)), np.uint32)
    counter[0] = np.arange(counter.shape[1])
    counter[3] = 1  # noise of the same key counts otherwise
    words = philox4x32(counter, key).T.ravel()[:count]
    return words.astype(np.float64) * 2.0**-32


def split_sides(size: int, u: Uniforms) -> Sizes:
    """Cut a side into ``len(u)`` nearly equal parts, int64 [n + 1] edges; ``u`` orders the parts."""
    parts = np.full(len(u), size // len(u))
    parts[: size % len(u)] += 1
    shuffled = parts[orders(u[None])[0]]
    return np.concatenate([[0], np.cumsum(shuffled)])


def stripes(
    u: Uniforms, gate: Uniforms, number: Any, length: Any, sizes: Sizes, *, axis: int
) -> Sizes:
    """Return rectangles, int64 [B, n, 4], that cross the image; ``axis`` 0 are horizontal ones."""
    size = sizes[:, axis : axis + 1]
    wide = np.minimum(whole_between(u[:, :, 0], length), size)
    start = whole_below(u[:, :, 1], size - wide + 1)
    used = np.arange(u.shape[1]) < whole_between(gate, number)[:, None]
    holes = np.zeros((*u.shape[:2], 4), np.int64)
    holes[:, :, 2:] = sizes[:, None]
    holes[:, :, axis], holes[:, :, axis + 2] = start, start + wide
    return np.where(used[:, :, None], holes, 0)


def checked_paint(name: str, field: str, value: Any, words: tuple[str, ...]) -> Any:
    """Return one value, three, or one of the words."""
    return value if isinstance(value, str) and value in words else fields.fill(name, field, value)
