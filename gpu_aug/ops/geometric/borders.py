"""The fields that describe the padding of an image, their checks, and where an image is placed on a larger canvas."""

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
    """Base of crops that pad outside the image.

    Attributes:
        padding_mode: What the padding shows: "constant" is ``fill``, "edge" repeats the last pixel, "reflect" mirrors without it
            (dcb|abcd|cba), "symmetric" mirrors with it (cba|abcd|dcb); mirrored as often as necessary.
        fill: Value of the padding, one or three, in the value range at this step of the recipe: [0, 1] before Normalize.
        fill_mask: Value of the padding of masks, an integer.
    """

    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: MaskValue = 0


def crop_params(start: Any, shape: Any) -> Params:
    """Return the parameters of Crop for rectangles with these corners and sizes.

    ``start`` is [B, 2]; ``shape`` is [B, 2], or (height, width) for all images.
    """
    start = np.array(start, np.int64)
    return {"start": start, "shape": np.full(start.shape, shape, np.int64)}


def place_columns(operation: Any) -> int:
    """Return how many uniform numbers the field ``position`` needs: two if it is "random", else none."""
    return 2 if operation.position == "random" else 0


def borders(missing: Sizes, position: str, u: Uniforms) -> Sizes:
    """Return how many of the missing rows and columns are added before the image, int64 [B, 2]."""
    if position == "random":
        return whole_below(u, missing + 1)
    if position == "center":
        return missing // 2
    before: Sizes = missing * np.array([position.startswith("bottom"), position.endswith("right")])
    return before


def paddings(operation: str, field: str, value: Any) -> tuple[int, int, int, int]:
    """Check one, two or four widths of padding; return (left, top, right, bottom)."""
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
    """Return whether a fill is a multiple of 1/255 in every channel."""
    fills = np.atleast_1d(fill) * 255
    return bool((np.abs(fills - np.rint(fills)) < 1e-6).all())
