"""Operations that crop images."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random
from gpu_aug.ops.distributions.uniform import Sizes, whole_below
from gpu_aug.ops.geometric.borders import (
    POSITIONS,
    PaddedCrop,
    Position,
    borders,
    crop_params,
    paddings,
    place_columns,
)
from gpu_aug.ops.geometric.spatial import Pair, ToOneSize

__all__ = ["CenterCrop", "FixedCrop", "RandomCrop"]


def _paddings(operation: str, field: str, value: Any) -> tuple[int, int, int, int] | None:
    """Check the field ``padding``; return (left, top, right, bottom), or None if all are 0, which means no padding."""
    around = paddings(operation, field, value)
    return around if any(around) else None


@dataclass(frozen=True)
class RandomCrop(ToOneSize, PaddedCrop):
    """Crop a fixed size at a random location; an image that is too small is padded.

    Args:
        size: (height, width) of the result; one number means a square.
        padding: Pixels added around the image before the crop: one number, (left and right, top and bottom) or (left, top,
            right, bottom).
        position: Where an image that is still too small is placed in the result.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 RandomCrop with ``pad_if_needed``; ``position`` is Albumentations' ``pad_position``, and its value
    "random" is torchvision's distribution.
    """

    random: ClassVar[Random] = {"place": Numbers(2)}

    size: Pair
    padding: Annotated[int | tuple[int, ...] | None, validation.optional(_paddings)] = None
    _: KW_ONLY
    position: Position = "random"

    @property
    def may_pad(self) -> bool:  # type: ignore[override]
        """True if ``padding`` is given."""
        return self.padding is not None

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, which is negative if a border is added, and ``shape``, int64 [B, 2]."""
        left, top, right, bottom = self.padding or (0, 0, 0, 0)  # type: ignore[misc]
        room = sizes - self.size + np.array([top + bottom, left + right])
        inside = whole_below(drawn["place"], np.maximum(room, 0) + 1)
        before = borders(np.maximum(-room, 0), self.position, drawn["place"])
        return crop_params(inside - before - (top, left), self.size)


@dataclass(frozen=True)
class CenterCrop(ToOneSize, PaddedCrop):
    """Crop the middle of the image; an image that is too small is padded.

    Args:
        size: (height, width) of the result; one number means a square.
        rounding: How half a pixel in the top-left corner is rounded: "even" to the even neighbour, as in torchvision, "down"
            to the smaller one, as in Albumentations.
        position: Where an image that is too small is placed in the result.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 CenterCrop; ``rounding`` and ``position`` are those of Albumentations CenterCrop.
    """

    random: ClassVar[Random] = {"place": Numbers(place_columns)}

    size: Pair
    _: KW_ONLY
    rounding: Literal["even", "down"] = "even"
    position: Position = "center"

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start``, which is negative if a border is added, and ``shape``, int64 [B, 2]."""
        room = sizes - self.size
        half = np.maximum(room, 0) / 2
        cut = (np.rint(half) if self.rounding == "even" else np.floor(half)).astype(np.int64)
        return crop_params(
            cut - borders(np.maximum(-room, 0), self.position, drawn["place"]), self.size
        )


def _fixed_position(operation: str, field: str, value: Any) -> str | tuple[int, int]:
    if isinstance(value, str):
        return validation.choice(operation, field, value, POSITIONS[:-1])
    if not validation.is_sequence(value, 2) or not all(map(validation.is_whole, value)):
        allowed = 'a corner or (top, left), such as "top_left"'
        raise validation.fault(operation, field, value, allowed)
    return int(value[0]), int(value[1])


@dataclass(frozen=True)
class FixedCrop(ToOneSize, PaddedCrop):
    """Crop a fixed size at a fixed location; the part outside the image is padded.

    Args:
        size: (height, width) of the result; one number means a square.
        position: Location of the crop: "center", a corner such as "top_left", or (top, left) in pixels.
        padding_mode: See PaddedCrop.
        fill: See PaddedCrop.
        fill_mask: See PaddedCrop.

    Source: torchvision v2 ``crop``, ``five_crop`` and ``center_crop``.
    """

    size: Pair
    position: Annotated[str | tuple[int, int], _fixed_position] = "center"

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``start`` and ``shape``, int64 [B, 2]."""
        room = sizes - self.size
        if not isinstance(self.position, str):
            start = np.broadcast_to(np.array(self.position), sizes.shape)
        elif self.position == "center":
            cut = np.rint(np.maximum(room, 0) / 2).astype(np.int64)
            start = cut - np.maximum(-room, 0) // 2
        else:
            start = room * np.array([self.position[:3] == "bot", self.position[-5:] == "right"])
        return crop_params(start, self.size)
