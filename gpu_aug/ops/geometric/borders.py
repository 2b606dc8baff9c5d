"""Borders: the fields that describe the padding of an image, their checks, and the canvas offset."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, whole_below
from gpu_aug.ops.geometric.spatial import Crop, Fill, MaskValue, PaddingMode

Position = Literal["center", "top_left", "top_right", "bottom_left", "bottom_right", "random"]
POSITIONS: tuple[str, ...] = get_args(Position)


@dataclass(frozen=True, kw_only=True)
class PaddedCrop(Crop, abstract=True):
    """A crop with padding outside the image.

    Attributes:
        padding_mode: "constant" is ``fill``, "edge" repeats the last pixel, "reflect" mirrors
            without it (dcb|abcd|cba), "symmetric" with it (cba|abcd|dcb); mirrored as often as
            necessary.
        fill: One value or three, in the values of this place in the recipe: [0, 1] before
            Normalize.
        fill_mask: The same for masks, a whole number.
    """

    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: MaskValue = 0


def crop_params(start: Any, shape: Any) -> Params:
    """Return the parameters of "cut this rectangle out"; ``shape`` may be one for all."""
    start = np.array(start, np.int64)
    shape = np.array(np.broadcast_to(np.array(shape, np.int64), start.shape))
    return {"start": start, "shape": shape}


def place_columns(operation: Any) -> int:
    """Return how many uniform numbers the place of an image takes that is smaller than its canvas."""
    return 2 if operation.position == "random" else 0


def borders(missing: Sizes, position: str, u: Uniforms) -> Sizes:
    """Return the number of missing rows and columns added before the image, int64 [B, 2]."""
    if position == "random":
        return whole_below(u, missing + 1)
    if position == "center":
        return missing // 2
    before: Sizes = missing * np.array([position.startswith("bottom"), position.endswith("right")])
    return before


def paddings(operation: str, field: str, value: Any) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) of one, two or four numbers."""
    values = (value,) if validation.is_whole(value) else value
    for count in (1, 2, 4):
        if validation.is_sequence(values, count) and all(
            validation.is_whole(item) and item >= 0 for item in values
        ):
            left, top, right, bottom = (int(item) for item in tuple(values) * (4 // count))
            return left, top, right, bottom
    raise validation.fault(
        operation,
        field,
        value,
        "one, two or four whole numbers from 0, (left, top, right, bottom), for example 4",
    )


def is_whole_fill(fill: Fill) -> bool:
    """Whether a padding is a whole 1/255."""
    fills = np.atleast_1d(fill) * 255
    return bool((np.abs(fills - np.rint(fills)) < 1e-6).all())
