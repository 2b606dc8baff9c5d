"""Operations that paint over several parts of an image: rectangles, stripes, pixels."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Integer, Key, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between, whole_below, whole_between
from gpu_aug.ops.dropout.erase import Dropout
from gpu_aug.ops.geometric.borders import is_whole_fill
from gpu_aug.ops.operation import Operation

__all__ = ["CoarseDropout", "PixelDropout", "XYMasking"]

Range = tuple[float, float] | tuple[int, int]


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
        """Return ``holes``."""
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
        """Return ``holes``."""
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
        """Unless colours are drawn, which are RGB, or the pixels of each channel."""
        return self.drop_value is not None and not self.per_channel

    @property
    def moves_pixels_only(self) -> bool:
        """Where a whole 1/255 is painted."""
        return self.drop_value is None or is_whole_fill(self.drop_value)

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``key``, uint32 [B, 2], and ``colour``, float64 [B, 3]."""
        if self.drop_value is None:
            colour = whole_below(drawn["colour"], 256) / 255
        else:
            colour = np.array(
                np.broadcast_to(np.array(self.drop_value, np.float64), (len(sizes), 3))
            )
        return {"key": drawn["key"], "colour": colour}


def stripes(u: Uniforms, number: Sizes, length: Any, sizes: Sizes, *, axis: int) -> Sizes:
    """Return rectangles, int64 [B, n, 4], that cross the image; ``axis`` 0 are horizontal ones."""
    size = sizes[:, axis : axis + 1]
    wide = np.minimum(whole_between(u[:, :, 0], length), size)
    start = whole_below(u[:, :, 1], size - wide + 1)
    used = np.arange(u.shape[1]) < number[:, None]
    holes = np.zeros((*u.shape[:2], 4), np.int64)
    holes[:, :, 2:] = sizes[:, None]
    holes[:, :, axis], holes[:, :, axis + 2] = start, start + wide
    return np.where(used[:, :, None], holes, 0)
