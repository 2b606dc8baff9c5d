"""Oriented boxes as readers return them: x, y of four corners in pixels, in the order in which the file states them."""

import cmath
import math
from collections.abc import Sequence
from typing import Any

from readers.formats.boxes.checks import Outside

ORIENTED: dict[str, Any] = {"box_format": "xyxyxyxy"}
"""Entry of the field json that states that its boxes are oriented, in place of `readers.formats.columns.CORNERS`."""
_RECTANGLES_SHARE = 0.9
"""Share of outlines that must be rectangles for the guess that all stand for boxes. The boxes of DOTA that are cut at the edge of a
picture, or drawn by hand, are no exact rectangles."""
# Corners that are rounded to whole pixels move by up to 0.7 pixels each. People draw corners less exactly on larger objects.
_ROUNDING_PIXELS, _ROUNDING_SHARE = 2.0, 0.02
_LEAST_AREA = 1e-6  # square pixels: less is the rounding of a line's coordinates


def corners_around(box: Sequence[float]) -> list[float]:
    """Return the corners of an upright box (left, top, right, bottom), clockwise from the top left one."""
    left, top, right, bottom = box
    return [left, top, right, top, right, bottom, left, bottom]


def corners_of_rotated(box: Sequence[float]) -> list[float]:
    """Return the corners of (centre x, centre y, width, height, angle), in the order of `corners_around` before the rotation.

    The angle is in degrees, counter-clockwise as seen in the picture: the convention of Detectron2's ``RotatedBoxes`` and of
    torchvision's ``BoundingBoxFormat.CXCYWHR``.
    """
    x, y, width, height, angle = box
    turn = cmath.rect(0.5, -math.radians(angle))  # y points down
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    points = [complex(x, y) + turn * complex(a * width, b * height) for a, b in signs]
    return [value for point in points for value in (point.real, point.imag)]


def area_of(corners: Sequence[float]) -> float:
    """Return the area of the triangles on both sides of the diagonal from the first corner, in square pixels."""
    x, y = corners[:2]
    (ax, ay), (bx, by), (cx, cy) = ((corners[at] - x, corners[at + 1] - y) for at in (2, 4, 6))
    return (abs(ax * by - bx * ay) + abs(bx * cy - cx * by)) / 2


def has_area(corners: Sequence[float]) -> bool:
    """Return whether four corners enclose an area; they do not if they lie on a line or opposite ones coincide."""
    return area_of(corners) > _LEAST_AREA


def is_rectangle(corners: Sequence[float]) -> bool:
    """Return whether four corners are those of a rectangle of any direction, but for rounding."""
    (ax, ay), (bx, by), (cx, cy), (dx, dy) = zip(corners[::2], corners[1::2], strict=True)
    first, second = math.hypot(cx - ax, cy - ay), math.hypot(dx - bx, dy - by)
    tolerance = max(_ROUNDING_PIXELS, _ROUNDING_SHARE * max(first, second))
    # Its diagonals have the same centre and the same length.
    apart = math.hypot(ax + cx - bx - dx, ay + cy - by - dy)
    return apart <= tolerance and abs(first - second) <= tolerance


def is_upright(corners: Sequence[float]) -> bool:
    """Return whether each corner lies within a pixel of a corner of the box around them, so that their rectangle is not turned."""
    sides = [(values, min(values), max(values)) for values in (corners[::2], corners[1::2])]
    return all(min(one - low, high - one) <= 1 for values, low, high in sides for one in values)


def look_like_turned_boxes(outlines: Sequence[Sequence[float]]) -> bool:
    """Return whether outlines of four corners are probably oriented boxes: nearly all are rectangles, and any is turned."""
    rectangles = [one for one in outlines if is_rectangle(one)]
    are_most = len(rectangles) >= _RECTANGLES_SHARE * len(outlines)
    return are_most and not all(map(is_upright, rectangles))


def fit_corners(
    corners: Sequence[float], size: tuple[int, int], outside: Outside, where: str
) -> list[float] | None:
    """Return the corners of an oriented box unchanged; None if the box around it lies outside of its picture.

    Corners may lie outside: a rectangle around an object at the edge of a picture has such corners. They are never moved, since
    moving single ones would deform the box; ``BoxParams(clip=True)`` of a recipe cuts boxes properly.

    Args:
        corners: x, y of four corners in pixels.
        size: Height and width of the picture.
        outside: "raise" refuses a box whose centre lies outside the picture.
        where: Name of file and object, for errors.

    Raises:
        ValueError: The box has no area, or its centre lies outside and ``outside`` is "raise".
    """
    if not has_area(corners):
        raise ValueError(f"{where}: its four corners enclose no area")
    (height, width), xs, ys = size, corners[::2], corners[1::2]
    x, y = sum(xs) / 4, sum(ys) / 4
    if outside == "raise" and not (0 <= x <= width and 0 <= y <= height):
        raise ValueError(
            f"{where}: its centre ({x:g}, {y:g}) lies outside the picture, {width} x {height} (width x height); outside='clip' "
            "keeps the box if a part of it lies inside, and leaves it out otherwise"
        )
    is_inside = max(xs) > 0 and max(ys) > 0 and min(xs) < width and min(ys) < height
    return [*corners] if is_inside else None
