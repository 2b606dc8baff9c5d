"""The base of operations that warp images, with the fields of their border, and functions for their matrices."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.ops import validation
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms
from gpu_aug.ops.geometric.spatial import (
    Blend,
    Fill,
    Interpolation,
    MaskValue,
    Matrices,
    PaddingMode,
    Spatial,
)

Ranges = tuple[Range, Range]
"""Along x, and along y."""


@dataclass(frozen=True, kw_only=True)
class WarpWithBorder(Spatial, abstract=True):
    """Base of operations that warp images, with the fields that describe the border.

    Args:
        interpolation: How images are interpolated: "nearest", "bilinear" or "bicubic" (a = -0.75); masks always take the nearest
            pixel. "bicubic" allows no mirrored borders.
        padding_mode: Values outside the image: "constant" is ``fill``, "edge" repeats the last pixel, "reflect" mirrors without
            it (dcb|abcd|cba), "symmetric" mirrors with it (cba|abcd|dcb).
        fill: Value outside the image, one or three, in the value range at this step of the recipe: [0, 1] before Normalize.
        fill_mask: Value of masks outside the image, an integer.
        blend: How ``fill`` is blended with a bilinear image along the border, one pixel wide: "once", by the bilinear weights,
            as in OpenCV, or "twice", by their squares, as in torchvision for tensors and a fill that is not None.
        p: Share of the images that are changed.
    """

    interpolation: Interpolation = "bilinear"
    padding_mode: PaddingMode = "constant"
    fill: Fill = 0.0
    fill_mask: MaskValue = 0
    blend: Blend = "once"
    p: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.interpolation == "bicubic" and self.padding_mode in ("reflect", "symmetric"):
            raise validation.fault(
                type(self).__name__,
                "padding_mode",
                self.padding_mode,
                "'constant' or 'edge' with interpolation 'bicubic', because OpenCV and torch do not "
                "mirror alike far beside the image; 'bilinear' has all of them",
            )


def xy_ranges(operation: str, field: str, value: Any, *, low: float, example: str) -> Ranges:
    """Check ranges along x and y, and return them.

    One number is a fixed value, a pair is a range for both axes, and two numbers or pairs inside a pair are for x and y, as is a
    dictionary with "x" and "y".
    """
    if isinstance(value, dict) and value.keys() == {"x", "y"}:
        value = (value["x"], value["y"])
    elif not validation.is_sequence(value, 2) or all(validation.is_number(end) for end in value):
        value = (value, value)
    along = tuple(
        validation.interval(
            operation,
            field,
            (axis, axis) if validation.is_number(axis) else axis,
            low=low,
            example=example,
        )
        for axis in value
    )
    return along[0], along[1]


def normals(u: Uniforms) -> NDArray[np.float64]:
    """Return standard normal numbers [B, n], made from as many uniform numbers (Box and Muller); n must be even."""
    half = u.shape[1] // 2
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, :half])), 2 * np.pi * u[:, half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def about(center: NDArray[np.float64], linear: NDArray[np.float64]) -> Matrices:
    """Return matrices that apply ``linear``, [B, 2, 2], about ``center``, [B, 2] in (x, y)."""
    matrix = np.zeros((len(linear), 3, 3))
    matrix[:, :2, :2] = linear
    matrix[:, :2, 2] = center - (linear @ center[:, :, None])[:, :, 0]
    matrix[:, 2, 2] = 1
    return matrix


def turns(angle: Uniforms) -> NDArray[np.float64]:
    """Return rotation matrices, float64 [B, 2, 2]; angles are in radians, clockwise as the image is seen."""
    cos, sin = np.cos(angle), np.sin(angle)
    rotations: NDArray[np.float64] = np.stack([cos, -sin, sin, cos], axis=1).reshape(-1, 2, 2)
    return rotations


def centers(sizes: Sizes) -> NDArray[np.float64]:
    """Return the centres of images in pixel indices, float64 [B, 2] in (x, y)."""
    middle: NDArray[np.float64] = (sizes[:, ::-1] - 1) / 2
    return middle


def homographies(before: NDArray[np.float64], after: NDArray[np.float64]) -> Matrices:
    """Return the matrices that move four points, [B, 4, 2] in (x, y), to four other points.

    If the points determine no matrix, it is the identity. The third coordinate of the points' centre is positive, so
    that they lie in front of the horizon.
    """
    num = len(before)
    (x, y), (to_x, to_y) = np.moveaxis(before, 2, 0), np.moveaxis(after, 2, 0)
    one, zero = np.ones((num, 4)), np.zeros((num, 4))
    upper = np.stack([x, y, one, zero, zero, zero, -x * to_x, -y * to_x], axis=2)
    lower = np.stack([zero, zero, zero, x, y, one, -x * to_y, -y * to_y], axis=2)
    system = np.concatenate([upper, lower], axis=1)
    matrix = np.broadcast_to(np.eye(3), (num, 3, 3)).copy()
    known = np.linalg.cond(system) < 1e14
    right = np.concatenate([to_x, to_y], axis=1)[known]
    values = np.linalg.solve(system[known], right[:, :, None])[:, :, 0]
    matrix[known] = np.concatenate([values, np.ones((len(values), 1))], axis=1).reshape(-1, 3, 3)
    middle = before.mean(axis=1)
    distance = (matrix[:, 2, :2] * middle).sum(axis=1) + matrix[:, 2, 2]
    return matrix * np.where(distance < 0, -1.0, 1.0)[:, None, None]


def extremes(sizes: Sizes) -> Sizes:
    """Return the smallest and the largest height and width of ``sizes``, int64 [2, 2]."""
    return np.stack([sizes.min(axis=0), sizes.max(axis=0)])


def pixel_indices(size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the column indices x and the row indices y of all pixels, float64 [1, H, W] each."""
    y, x = torch.meshgrid(
        *(torch.arange(side, dtype=torch.float64, device=device) for side in size), indexing="ij"
    )
    return x[None], y[None]
