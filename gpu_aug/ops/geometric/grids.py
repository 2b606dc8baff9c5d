"""Operations on a grid of cells that divides the image."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, orders, whole_below
from gpu_aug.ops.dropout.erase import Dropout, keyed_uniforms
from gpu_aug.ops.operation import Operation

__all__ = ["GridDropout", "GridMask", "RandomGridShuffle"]


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

    Args:
        ratio: Side of a rectangle as a share of its cell's, above 0, rounded down; at least one
            pixel, and at least one less than the cell.
        random_offset: Whether each rectangle stands at a random place of its cell.
        unit_size_range: Smallest and largest side of a cell in pixels, from 2; the largest is not
            drawn itself.
        grid: Number of cells along (height, width), in place of ``unit_size_range``. Without both,
            cells are a tenth of the image.
        shift_xy: Offset (x, y) of the rectangles in their cells, if not random.
        fill: See Dropout; and so the others.

    Where a side is no multiple of its number of cells, which cells are one pixel larger is random.

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
        """Return ``holes``."""
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

    random: ClassVar[Random] = {"period": Numbers(), "shift": Numbers(2), "key": Key()}

    d: Annotated[tuple[int, int], validation.IntegerRange(low=2, example="(96, 224)")] = (96, 224)
    ratio: Annotated[
        float, validation.Number(low=0, high=1, above=True, below=True, example="0.6")
    ] = 0.6
    mode: Literal["squares", "stripes"] = "squares"

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``."""
        low, high = self.d
        period = low + whole_below(drawn["period"], max(high - low, 1))
        kept = np.ceil(period * self.ratio).astype(np.int64)[:, None]
        # The authors' grid covers a square as large as the diagonal, centred on the image.
        diagonal = np.ceil(np.sqrt((sizes**2).sum(axis=1))).astype(np.int64)[:, None]
        shift = whole_below(drawn["shift"], period[:, None]) - (diagonal - sizes) // 2
        first = shift % period[:, None] - period[:, None]  # of a stripe, at or before 0
        count = int((sizes.max(axis=1, initial=0) // period).max(initial=0)) + 2
        starts = first[:, None] + np.arange(count)[:, None] * period[:, None, None]
        stripes = np.stack([starts, starts + kept[:, None]], axis=1)  # [B, 2, count, axis]
        gaps = np.stack([starts + kept[:, None], starts + period[:, None, None]], axis=1)
        holes = self._rectangles(stripes, gaps, sizes)
        limits = np.concatenate([sizes, sizes], axis=1)[:, None]
        return self._params(np.clip(holes, 0, limits), drawn["key"])

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
class RandomGridShuffle(Operation):
    """Divide the image into tiles and shuffle tiles of equal size, with probability ``p``.

    Args:
        grid: Number of tiles along (height, width).
        p: Share of the images that are changed.

    Where a side is no multiple of its number of tiles, which tiles are one pixel larger is random.
    Masks follow the image; boxes and keypoints cannot.

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
        """Return ``tiles`` and ``sources``, int64 [B, N, 4]: each tile and the tile shown in it.

        Both are top, left, bottom, right; a tile and its source have one size.
        """
        rows, columns = self.grid
        tiles = np.zeros((len(sizes), rows * columns, 4), np.int64)
        sources = np.zeros_like(tiles)
        for row, numbers in enumerate(drawn["order"]):
            down, along, dice = np.split(numbers, [rows, rows + columns])
            top, left = split_sides(sizes[row, 0], down), split_sides(sizes[row, 1], along)
            cut = np.meshgrid(top[:-1], left[:-1], indexing="ij")
            stop = np.meshgrid(top[1:], left[1:], indexing="ij")
            tile = np.stack([side.ravel() for side in (*cut, *stop)], axis=1)
            shape = tile[:, 2:] - tile[:, :2]
            # Within each shape, the tiles in the order of their numbers.
            old = np.lexsort((np.arange(len(tile)), shape[:, 1], shape[:, 0]))
            new = np.lexsort((dice, shape[:, 1], shape[:, 0]))
            tiles[row, old], sources[row, old] = tile[old], tile[new]
        return {"tiles": tiles, "sources": sources}


def split_sides(size: int, u: Uniforms) -> Sizes:
    """Cut a side into ``len(u)`` nearly equal parts, int64 [n + 1] edges; ``u`` orders the parts."""
    parts = np.full(len(u), size // len(u))
    parts[: size % len(u)] += 1
    shuffled = parts[orders(u[None])[0]]
    return np.concatenate([[0], np.cumsum(shuffled)])
