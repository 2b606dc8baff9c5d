"""Operations that paint or shuffle the cells of a grid, and that paint stripes or single pixels."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Key, Numbers, Random
from gpu_aug.ops.distributions.uniform import (
    Sizes,
    Uniforms,
    orders,
    whole_below,
    whole_between,
)
from gpu_aug.ops.dropout.erase import Dropout, keyed_uniforms
from gpu_aug.ops.geometric.borders import is_whole_fill
from gpu_aug.ops.operation import Operation

__all__ = ["GridDropout", "PixelDropout", "RandomGridShuffle", "XYMasking"]


def _pair(operation: str, field: str, value: Any, *, low: int) -> tuple[int, int]:
    if not validation.is_sequence(value, 2) or not all(
        validation.is_whole(item) and item >= low for item in value
    ):
        allowed = f"two whole numbers from {low}, such as (5, 4)"
        raise validation.fault(operation, field, value, allowed)
    return int(value[0]), int(value[1])


@dataclass(frozen=True)
class GridDropout(Dropout):
    """Divide the image into cells and paint a rectangle in each, with probability ``p``.

    If a side is not divisible by its number of cells, it is random which cells are one pixel larger.

    Args:
        ratio: Side of a rectangle as a share of its cell's, above 0, rounded down; at least one pixel, and at least one pixel
            less than the cell.
        random_offset: Whether each rectangle has a random location in its cell.
        unit_size_range: Smallest and largest side of a cell in pixels, from 2; the largest is excluded.
        grid: Number of cells along (height, width), in place of ``unit_size_range``. Without both, a cell is a tenth of the
            image.
        shift_xy: Offset (x, y) of the rectangles in their cells, if ``random_offset`` is False.
        fill: See Dropout, also for ``fill_mask`` and ``p``.

    Source: Albumentations GridDropout, whose ``holes_number_xy`` counts rows first.
    """

    random: ClassVar[Random] = {"unit": Numbers(), "holes": Key(), "key": Key()}

    ratio: Annotated[float, validation.Number(low=0, high=1, above=True, example="0.5")] = 0.5
    random_offset: bool = True
    unit_size_range: Annotated[
        tuple[int, int] | None,
        validation.optional(validation.IntegerRange(low=2, example="(10, 20)")),
    ] = None
    grid: Annotated[tuple[int, int] | None, validation.optional(partial(_pair, low=1))] = None
    shift_xy: Annotated[tuple[int, int], partial(_pair, low=0)] = (0, 0)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``, int64 [B, N, 4], and what a random fill needs; see Holes."""
        grid = self._grid(drawn["unit"], sizes)
        each = [
            self._holes(number, cells, size)
            for number, cells, size in zip(drawn["holes"], grid, sizes, strict=True)
        ]
        holes = np.zeros((len(sizes), max(map(len, each), default=0), 4), np.int64)
        for row, found in enumerate(each):
            holes[row, : len(found)] = found
        return self._params(holes, drawn["key"])

    def _grid(self, u: Uniforms, sizes: Sizes) -> Sizes:
        """Return the number of cells along height and width, int64 [B, 2]."""
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
        """Return the rectangles of one image, int64 [N, 4]."""
        rows, columns = grid.tolist()
        numbers = keyed_uniforms(key, rows + columns + 2 * rows * columns)
        along, down = np.split(numbers[: rows + columns], [columns])
        edges = [split_sides(size[:1], down[None])[0], split_sides(size[1:], along[None])[0]]
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
class RandomGridShuffle(Operation):
    """Divide the image into tiles and shuffle tiles of equal size, with probability ``p``.

    If a side is not divisible by its number of tiles, it is random which tiles are one pixel larger. Masks follow the
    image; boxes and keypoints cannot.

    Args:
        grid: Number of tiles along (height, width).
        p: Share of the images that are changed.

    Source: Albumentations RandomGridShuffle.
    """

    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {
        "order": Numbers(lambda self: sum(self.grid) + self.grid[0] * self.grid[1])
    }

    grid: Annotated[tuple[int, int], validation.height_width] = (3, 3)
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``tiles`` and ``sources``, int64 [B, N, 4]: each tile, and the tile of the input that is shown in it.

        Each is top, left, bottom, right; a tile and its source have equal sizes.
        """
        rows, columns = self.grid
        down, along, dice = np.split(drawn["order"], [rows, rows + columns], axis=1)
        top, left = split_sides(sizes[:, 0], down), split_sides(sizes[:, 1], along)
        ends = top[:, :-1, None], left[:, None, :-1], top[:, 1:, None], left[:, None, 1:]
        tiles = np.stack(np.broadcast_arrays(*ends), axis=-1).reshape(len(sizes), -1, 4)
        height, width = np.moveaxis(tiles[..., 2:] - tiles[..., :2], -1, 0)
        # Within each shape, the tiles in the order of their numbers.
        old = np.lexsort((np.broadcast_to(np.arange(rows * columns), dice.shape), width, height))
        new = np.lexsort((dice, width, height))
        sources = np.empty_like(tiles)
        chosen = np.take_along_axis(tiles, new[..., None], axis=1)
        np.put_along_axis(sources, old[..., None], chosen, axis=1)
        return {"tiles": tiles, "sources": sources}


def split_sides(sizes: Sizes, u: Uniforms) -> Sizes:
    """Return the edges, int64 [B, n + 1], of nearly equal parts of sides, int64 [B]; ``u``, [B, n], decides the order of the parts."""
    num = u.shape[1]
    parts = sizes[:, None] // num + (np.arange(num) < sizes[:, None] % num)
    shuffled = np.take_along_axis(parts, orders(u), axis=1)
    return np.cumsum(np.pad(shuffled, ((0, 0), (1, 0))), axis=1)


@dataclass(frozen=True)
class XYMasking(Dropout):
    """Paint random vertical and horizontal stripes, with probability ``p``.

    Args:
        num_masks_x: Smallest and largest number of vertical stripes.
        num_masks_y: Smallest and largest number of horizontal stripes.
        mask_x_length: Smallest and largest width of the vertical stripes, in pixels.
        mask_y_length: Smallest and largest height of the horizontal stripes, in pixels.
        fill: See Dropout, also for ``fill_mask`` and ``p``.

    Source: Albumentations XYMasking. A stripe that is longer than the image covers it; in Albumentations that is an error.
    """

    random: ClassVar[Random] = {
        "number_x": Integer("num_masks_x"),
        "number_y": Integer("num_masks_y"),
        "masks": Numbers(lambda self: 2 * (self.num_masks_x[1] + self.num_masks_y[1])),
        "key": Key(),
    }

    num_masks_x: Annotated[
        int | tuple[int, int], validation.IntegerRange(low=0, example="(0, 10)")
    ] = 0
    num_masks_y: Annotated[
        int | tuple[int, int], validation.IntegerRange(low=0, example="(0, 10)")
    ] = 0
    mask_x_length: Annotated[
        int | tuple[int, int], validation.IntegerRange(low=0, example="(0, 10)")
    ] = 0
    mask_y_length: Annotated[
        int | tuple[int, int], validation.IntegerRange(low=0, example="(0, 10)")
    ] = 0

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``, int64 [B, N, 4], and what a random fill needs; see Holes."""
        most = self.num_masks_x[1]  # type: ignore[index]
        numbers = drawn["masks"].reshape(len(sizes), -1, 2)
        holes = np.concatenate(
            [
                stripes(numbers[:, :most], drawn["number_x"], self.mask_x_length, sizes, axis=1),
                stripes(numbers[:, most:], drawn["number_y"], self.mask_y_length, sizes, axis=0),
            ],
            axis=1,
        )
        return self._params(holes, drawn["key"])


@dataclass(frozen=True)
class PixelDropout(Operation):
    """Paint random pixels, with probability ``p``. Masks, boxes and keypoints are unchanged.

    Args:
        dropout_prob: Share of the pixels that are painted.
        per_channel: Whether each channel draws its own pixels.
        drop_value: Value of the painted pixels, one or three, in the value range at this step of the recipe; None draws a
            colour per image, whose channels are multiples of 1/255.
        p: Share of the images that are changed.

    Source: Albumentations PixelDropout. The drawn ``key`` determines the pixels.
    """

    random: ClassVar[Random] = {"key": Key(), "colour": Numbers(3)}

    dropout_prob: Annotated[float, validation.Number(low=0, high=1, example="0.01")] = 0.01
    _: KW_ONLY
    per_channel: bool = False
    drop_value: Annotated[
        float | tuple[float, float, float] | None, validation.optional(validation.fill)
    ] = 0.0
    p: float = 0.5

    @property
    def any_channels(self) -> bool:  # type: ignore[override]
        """True unless colours or the pixels of each channel are drawn, which is for RGB images only."""
        return self.drop_value is not None and not self.per_channel

    @property
    def moves_pixels_only(self) -> bool:
        """True if the painted value is a multiple of 1/255."""
        return self.drop_value is None or is_whole_fill(self.drop_value)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``key``, uint32 [B, 2], which determines the pixels, and ``colour``, float64 [B, 3]."""
        if self.drop_value is None:
            colour = whole_below(drawn["colour"], 256) / 255
        else:
            colour = np.array(
                np.broadcast_to(np.array(self.drop_value, np.float64), (len(sizes), 3))
            )
        return {"key": drawn["key"], "colour": colour}


def stripes(u: Uniforms, number: Sizes, length: Any, sizes: Sizes, *, axis: int) -> Sizes:
    """Return rectangles, int64 [B, n, 4], that cross the image: horizontal ones for ``axis`` 0, vertical ones for 1."""
    size = sizes[:, axis : axis + 1]
    wide = np.minimum(whole_between(u[:, :, 0], length), size)
    start = whole_below(u[:, :, 1], size - wide + 1)
    used = np.arange(u.shape[1]) < number[:, None]
    holes = np.zeros((*u.shape[:2], 4), np.int64)
    holes[:, :, 2:] = sizes[:, None]
    holes[:, :, axis], holes[:, :, axis + 2] = start, start + wide
    return np.where(used[:, :, None], holes, 0)
