"""Conversions between the formats of boxes and the form in which a recipe moves them."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.errors import RecipeError, TargetsError
from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import oriented
from gpu_aug.targets.oriented import OrientedBoxes
from gpu_aug.targets.polygons import Polygons
from gpu_aug.targets.targets import BOX_COLUMNS, BoxParams

Boxes = NDArray[np.float64]
Size = tuple[int, int]

_CORNERS = BoxParams()  # of recipes that give none


def to_moving(boxes: Boxes, params: BoxParams, size: Size) -> Boxes | OrientedBoxes:
    """Return boxes in the format of ``params`` in the form that recipes move, for an image of ``size``.

    Raises:
        TargetsError: They have another number of columns than the format.
    """
    boxes = _with_columns(boxes, params)
    if not params.is_oriented:
        return box_math.to_xyxy(boxes, params, size)
    return oriented.from_corners(to_corners(boxes, params, size))


def from_moving(boxes: Boxes | OrientedBoxes, params: BoxParams, size: Size) -> Boxes:
    """Return boxes that a recipe moved in the format of ``params``, for an image of ``size``."""
    if not isinstance(boxes, OrientedBoxes):
        return box_math.from_xyxy(boxes, params, size)
    corners = oriented.rectangles(boxes) + 0.0  # which turns -0 to 0
    if params.format == "xyxyxyxy":
        return (corners / _extent(params, size)).reshape(-1, 8)
    along, down = corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]
    at = corners.mean(axis=1) if params.format == "cxcywhr" else corners[:, 0]
    # Adding 0 turns -0 to 0, so that the angle is 180 and never -180.
    angle = np.degrees(np.arctan2(-along[:, 1] + 0.0, along[:, 0]))
    return np.column_stack([at, np.hypot(*along.T), np.hypot(*down.T), angle])


def to_corners(boxes: Boxes, params: BoxParams, size: Size) -> Polygons:
    """Return the corners in pixels of boxes in any format, float64 [N, 4, 2], clockwise on the screen from the first corner.

    Args:
        boxes: Boxes in the format of ``params``.
        params: Their format.
        size: Height and width of the image.
    """
    if params.format == "xyxyxyxy":
        return boxes.reshape(-1, 4, 2) * _extent(params, size)
    if not params.is_oriented:
        upright = box_math.to_xyxy(boxes, params, size)
        return upright[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    angle = np.radians(boxes[:, 4])
    cos, sin = np.cos(angle), np.sin(angle)
    width, height = np.maximum(boxes[:, 2:4], 0).T  # a negative side leaves no area
    along = np.stack([width * cos, -width * sin], axis=1)
    down = np.stack([height * sin, height * cos], axis=1)
    first = boxes[:, :2] - (along + down) / 2 if params.format == "cxcywhr" else boxes[:, :2]
    return np.stack([first, first + along, first + along + down, first + down], axis=1)


def in_format(boxes: Boxes, form: Any, params: BoxParams | None, size: Size) -> Boxes:
    """Convert boxes from the format ``form`` to the format of ``params``, for an image of ``size``.

    Axis-aligned boxes become oriented ones with the angle 0. Oriented boxes become the axis-aligned boxes around their part in
    the image, with a warning; one whose centre lies outside the image is not clipped.

    Raises:
        TargetsError: ``form`` is not a box format, or the boxes have another number of columns.
    """
    params = params or _CORNERS
    try:
        given = BoxParams(form)
        boxes = _with_columns(boxes, given)
    except (RecipeError, TargetsError) as error:
        raise TargetsError(f"box_format beside the boxes: {error}") from error
    if given.format == params.format and given.normalized == params.normalized:
        return boxes
    if not given.is_oriented and not params.is_oriented:
        return box_math.from_xyxy(box_math.to_xyxy(boxes, given, size), params, size)
    moving = oriented.from_corners(to_corners(boxes, given, size))
    if params.is_oriented:
        return from_moving(moving, params, size)
    warnings.warn(
        f"the data has oriented boxes, and the recipe's format is {params.format!r}: they become the axis-aligned boxes around "
        'their part in the image; BoxParams("cxcywhr") keeps their angles',
        UserWarning,
        stacklevel=2,
    )
    outside = box_math.lies_outside(moving, size, 0)[:, None]
    upright = np.where(
        outside, box_math.around(moving), box_math.around(box_math.clip(moving, size))
    )
    return box_math.from_xyxy(upright, params, size)


def _with_columns(boxes: Boxes, params: BoxParams) -> Boxes:
    """Return boxes with the number of columns of their format; without boxes it does not matter which they had.

    Raises:
        TargetsError: They have another number of columns.
    """
    columns = BOX_COLUMNS[params.format]
    if len(boxes) == 0:
        return np.empty((0, columns))
    if boxes.shape[1] != columns:
        fitting = [name for name, number in BOX_COLUMNS.items() if number == boxes.shape[1]]
        raise TargetsError(
            f"boxes must have {columns} numbers each in the format {params.format!r}, got {boxes.shape[1]}: give the recipe "
            f"BoxParams({fitting[0]!r}), or another format of {boxes.shape[1]} numbers, or convert the boxes"
        )
    return boxes


def _extent(params: BoxParams, size: Size) -> Boxes | float:
    """Return what the numbers of corners (x, y) count in pixels."""
    return np.array(size[::-1], np.float64) if params.normalized else 1.0
