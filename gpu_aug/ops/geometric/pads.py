"""Operations that pad images."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.geometric.borders import (
    PaddedCrop,
    Position,
    borders,
    crop_params,
    paddings,
    place_columns,
)

__all__ = ["Pad", "PadIfNeeded", "RandomZoomOut"]


@dataclass(frozen=True)
class Pad(PaddedCrop):
    """Add a border.

    Args:
        padding: Width of the border in pixels: one number, (left and right, top and bottom) or (left, top, right, bottom).
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 Pad.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    padding: Annotated[int | tuple[int, ...], paddings]

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        left, top, _, _ = self.padding  # type: ignore[misc]
        return crop_params(np.broadcast_to((-top, -left), sizes.shape), self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` plus the border."""
        left, top, right, bottom = self.padding  # type: ignore[misc]
        padded: Sizes = sizes + np.array([top + bottom, left + right])
        return padded


def _sides(operation: str, field: str, value: Any) -> tuple[int | None, int | None] | None:
    """Check one number for both sides, or (height, width) with None for either; return (height, width) or None."""
    if value is None:
        return None
    values = (value, value) if validation.is_whole(value) else value
    if not validation.is_sequence(values, 2) or not all(
        side is None or (validation.is_whole(side) and side > 0) for side in values
    ):
        raise validation.fault(
            operation, field, value, "one or two whole numbers of at least 1, for example 224"
        )
    height, width = (None if side is None else int(side) for side in values)
    return None if height is None and width is None else (height, width)


@dataclass(frozen=True)
class PadIfNeeded(PaddedCrop):
    """Add a border to images that are smaller than a size, or whose sides are not multiples of a number.

    Args:
        size: Smallest (height, width) of the result, or one number for both; None for a side means that ``divisor`` decides.
        divisor: Numbers of which (height, width) of the result are multiples, or one number for both; None for a side means
            that ``size`` decides.
        position: Where the image is placed in the result; an odd row or column is added at the bottom or right.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: Albumentations PadIfNeeded.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"place": Numbers(place_columns)}

    size: Annotated[int | tuple[int | None, int | None] | None, _sides] = None
    _: KW_ONLY
    divisor: Annotated[int | tuple[int | None, int | None] | None, _sides] = None
    position: Position = "center"

    def __post_init__(self) -> None:
        given = (self.size, self.divisor)
        super().__post_init__()
        if any((smallest is None) == (part is None) for smallest, part in self._by_axis):
            raise RecipeError(
                "PadIfNeeded needs, for height and for width, either size or divisor, "
                f"got size={given[0]!r} and divisor={given[1]!r}: for example size=224"
            )

    @property
    def _by_axis(self) -> list[tuple[int | None, int | None]]:
        """Smallest side and divisor of the height, then of the width."""
        nothing: Any = (None, None)
        return list(zip(self.size or nothing, self.divisor or nothing, strict=True))  # type: ignore[arg-type]

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        shape = self.possible_sizes(sizes)
        return crop_params(-borders(shape - sizes, self.position, drawn["place"]), shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` plus the border that each image needs."""
        padded = sizes.copy()
        for axis, (smallest, part) in enumerate(self._by_axis):
            if smallest is not None:
                padded[:, axis] = np.maximum(sizes[:, axis], smallest)
            elif part is not None:
                padded[:, axis] += -sizes[:, axis] % part
        return padded


@dataclass(frozen=True)
class RandomZoomOut(PaddedCrop):
    """Place the image at a random location on a larger canvas, with probability ``p``.

    Args:
        fill: See PaddedCrop.
        side_range: Smallest and largest side of the canvas, as multiples (from 1) of the image's side.
        p: Share of the images that are changed.
        padding_mode: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 RandomZoomOut.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"side": Uniform("side_range"), "start": Numbers(2)}

    _: KW_ONLY
    side_range: Annotated[Range, validation.Interval(low=1, example="(1.0, 4.0)")] = (1.0, 4.0)
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        shape = (sizes * drawn["side"][:, None]).astype(np.int64)
        start = -((shape - sizes) * drawn["start"][:, ::-1]).astype(np.int64)
        return crop_params(start, shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return the sizes of the smallest and the largest canvas, and ``sizes`` themselves unless ``p`` is 1."""
        canvases = [(sizes * side).astype(np.int64) for side in self.side_range]
        return np.concatenate(canvases if self.p == 1 else [sizes, *canvases])
