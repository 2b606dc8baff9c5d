"""Operations that pad images."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.errors import RecipeError
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between
from gpu_aug.ops.geometric.borders import (
    POSITIONS,
    PaddedCrop,
    Position,
    borders,
    crop_params,
    paddings,
)

__all__ = ["Pad", "PadIfNeeded", "RandomZoomOut"]


@dataclass(frozen=True)
class Pad(PaddedCrop):
    """Add a border.

    Args:
        padding: In pixels: one number, (left and right, top and bottom) or (left, top, right,
            bottom).
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 Pad.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    padding: int | tuple[int, ...]

    def __post_init__(self) -> None:
        self._check_padding()
        self._set(padding=paddings("Pad", self.padding))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - nothing is random
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        left, top, _, _ = self.padding  # type: ignore[misc]
        return crop_params(np.broadcast_to((-top, -left), sizes.shape), self.possible_sizes(sizes))

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` with the border."""
        left, top, right, bottom = self.padding  # type: ignore[misc]
        padded: Sizes = sizes + np.array([top + bottom, left + right])
        return padded


@dataclass(frozen=True)
class PadIfNeeded(PaddedCrop):
    """Add a border to images that are smaller than a size, or no multiple of a number.

    Args:
        size: Smallest (height, width); one number is for both, None leaves a side to ``divisor``.
        divisor: Make (height, width) multiples of this; one number is for both, None leaves
            a side to ``size``.
        position: Location of the image in the result; half a pixel goes to bottom and right.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: Albumentations PadIfNeeded.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    size: int | tuple[int | None, int | None] | None = None
    _: KW_ONLY
    divisor: int | tuple[int | None, int | None] | None = None
    position: Position = "center"

    def __post_init__(self) -> None:
        self._check_padding()
        size, divisor = _sides("size", self.size), _sides("divisor", self.divisor)
        if any(
            (smallest is None) == (part is None)
            for smallest, part in zip(size, divisor, strict=True)
        ):
            raise RecipeError(
                "PadIfNeeded needs, for height and for width, either size or divisor, "
                f"got size={self.size!r} and divisor={self.divisor!r}: for example size=224"
            )
        self._set(
            size=None if size == (None, None) else size,
            divisor=None if divisor == (None, None) else divisor,
            position=validation.choice("PadIfNeeded", "position", self.position, POSITIONS),
        )

    @property
    def num_uniforms(self) -> int:
        """None, or top and left."""
        return 2 if self.position == "random" else 0

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        shape = self.possible_sizes(sizes)
        return crop_params(-borders(shape - sizes, self.position, u), shape)

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """Return ``sizes`` with the border that each needs."""
        padded = sizes.copy()
        size, divisor = _sides("size", self.size), _sides("divisor", self.divisor)
        for axis, (smallest, part) in enumerate(zip(size, divisor, strict=True)):
            if smallest is not None:
                padded[:, axis] = np.maximum(sizes[:, axis], smallest)
            elif part is not None:
                padded[:, axis] += -sizes[:, axis] % part
        return padded


@dataclass(frozen=True)
class RandomZoomOut(PaddedCrop):
    """Put the image at a random location on a larger canvas, with probability ``p``.

    Args:
        fill: See PaddedCrop.
        side_range: Smallest and largest side of the canvas, in sides of the image, from 1.
        p: Share of the images that are changed.
        padding_mode: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 RandomZoomOut.
    """

    may_pad: ClassVar[bool] = True
    """Always."""

    num_uniforms: ClassVar[int] = 4
    """The gate, the size, left and top."""

    _: KW_ONLY
    side_range: tuple[float, float] = (1.0, 4.0)
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "RandomZoomOut"
        self._check_padding()
        self._set(
            side_range=validation.interval(
                name, "side_range", self.side_range, low=1, example="(1.0, 4.0)"
            ),
            p=validation.probability(name, self.p),
        )

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:
        """Draw ``start`` and ``shape``, int64 [B, 2]."""
        shape = (sizes * between(u[:, 1:2], self.side_range)).astype(np.int64)
        start = -((shape - sizes) * u[:, [3, 2]]).astype(np.int64)
        return crop_params(start, shape) | {"apply": u[:, 0] < self.p}

    def possible_sizes(self, sizes: Sizes) -> Sizes:
        """The smallest and the largest canvas."""
        canvases = [(sizes * side).astype(np.int64) for side in self.side_range]
        return np.concatenate(canvases if self.p == 1 else [sizes, *canvases])


def _sides(field: str, value: Any) -> tuple[int | None, int | None]:
    """Return (height, width) of which each may be None."""
    if value is None:
        return None, None
    values = (value, value) if validation.is_whole(value) else value
    if not validation.is_sequence(values, 2) or not all(
        side is None or (validation.is_whole(side) and side > 0) for side in values
    ):
        raise validation.fault(
            "PadIfNeeded", field, value, "one or two whole numbers of at least 1, for example 224"
        )
    height, width = (None if side is None else int(side) for side in values)
    return height, width
