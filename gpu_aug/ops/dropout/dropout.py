"""Operations that paint several rectangles."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Key, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between, whole_below
from gpu_aug.ops.dropout.erase import Dropout

__all__ = ["CoarseDropout", "GridMask"]

Range = tuple[float, float] | tuple[int, int]


@dataclass(frozen=True)
class CoarseDropout(Dropout):
    """Paint several random rectangles, with probability ``p``.

    Args:
        num_holes: Smallest and largest number of rectangles, both included.
        hole_height: Smallest and largest height of a rectangle, both included. If the largest is at least 1, they are pixels;
            otherwise they are shares of the image's height.
        hole_width: Smallest and largest width of a rectangle, in pixels or shares, as ``hole_height``.
        fill: See Dropout, also for ``fill_mask`` and ``p``.

    Source: Albumentations CoarseDropout.
    """

    random: ClassVar[Random] = {
        "number": Integer("num_holes"),
        "holes": Numbers(lambda self: 4 * self.num_holes[1]),
        "key": Key(),
    }

    num_holes: Annotated[tuple[int, int], validation.IntegerRange(low=1, example="(1, 8)")] = (1, 2)
    hole_height: Annotated[Range, validation.Interval(low=0, example="(0.1, 0.2)")] = (0.1, 0.2)
    hole_width: Annotated[Range, validation.Interval(low=0, example="(0.1, 0.2)")] = (0.1, 0.2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hole_height[1] < 1 <= self.hole_width[1]:
            raise RecipeError(
                "CoarseDropout hole_height and hole_width must both be shares below 1 or both be pixels, "
                f"got {self.hole_height!r} and {self.hole_width!r}"
            )

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``holes``, int64 [B, N, 4], and what a random fill needs; see Holes."""
        number = drawn["number"]
        numbers = drawn["holes"].reshape(len(sizes), -1, 4)
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
        return self._params(holes, drawn["key"])

    def _side(self, u: Uniforms, ends: Range, size: Sizes) -> Sizes:
        if self.hole_height[1] < 1:
            side: Sizes = (size * between(u, ends)).astype(np.int64)
            return side
        largest = np.minimum(int(ends[1]), size)
        smallest = np.minimum(int(ends[0]), largest)
        return smallest + whole_below(u, largest - smallest + 1)


@dataclass(frozen=True)
class GridMask(Dropout):
    """Paint the squares of a regular grid, with probability ``p``.

    This operation exists in this project only: the converters never produce it.

    Args:
        d: Range of the period of the grid in pixels: the smallest, at least 2, and the largest, which is excluded.
        ratio: Share of each period, between 0 and 1, that is kept along a side.
        mode: "squares" paints the squares between the kept stripes; "stripes" paints the stripes and keeps the squares.
        fill: See Dropout, also for ``fill_mask`` and ``p``.

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
        """Return ``holes``, int64 [B, N, 4], and what a random fill needs; see Holes."""
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
