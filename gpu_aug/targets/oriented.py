"""The geometry of oriented boxes: the functions of `gpu_aug.targets.boxes` for OrientedBoxes.

While a recipe moves a box, the part of it that the image shows is a convex polygon, and only the result is a rectangle: otherwise
each of several operations would add the corners between a box and the rectangle around it.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_aug.targets import boxes as box_math
from gpu_aug.targets import polygons as polygon_math
from gpu_aug.targets.polygons import Polygons
from gpu_aug.targets.targets import BoxParams

Size = tuple[int, int]

# Coordinates of a box that nothing is left of: outside every image, as of axis-aligned boxes.
_EMPTY = -1.0
_SAME = 1e-6  # share by which area and shape of a rectangle may differ by rounding
# Share of the diagonal; corners whose shape deviates by less still count as a rectangle.
_NO_RECTANGLE = 0.01
# Corners of whole numbers deviate by up to 1.4 pixels, and those of any quadrilateral by far more.
_NO_RECTANGLE_IN_DATA = (2.0, 0.05)  # pixels, and share of the diagonal
_ROUNDING = 1e-6  # pixels by which a vertex on the border may lie outside


@dataclass(frozen=True, slots=True, eq=False)
class OrientedBoxes:
    """Oriented boxes of one image, in pixels.

    Attributes:
        corners: The four corners of each box, float64 [N, 4, 2], clockwise on the screen. They move with the box and are never
            clipped, so they keep its heading; NaN where a corner is behind a horizon or hidden by a distortion.
        polygons: What the image shows of each box, float64 [N, K, 2]; see `gpu_aug.targets.polygons`.
    """

    corners: Polygons
    polygons: Polygons

    def __len__(self) -> int:
        return len(self.corners)

    def __getitem__(self, rows: NDArray[np.bool_]) -> "OrientedBoxes":
        return OrientedBoxes(self.corners[rows], self.polygons[rows])

    def areas(self) -> NDArray[np.float64]:
        """Return the areas of what is shown, float64 [N]."""
        return polygon_math.areas(self.polygons)

    def sides(self) -> NDArray[np.float64]:
        """Return the lengths of the first and of the second side of the rectangles, float64 [N, 2]."""
        corners = rectangles(self)
        lengths: NDArray[np.float64] = np.linalg.norm(corners[:, 1:3] - corners[:, :2], axis=2)
        return lengths

    def around(self) -> NDArray[np.float64]:
        """Return axis-aligned boxes around what is shown, float64 [N, 4]."""
        return polygon_math.around(self.polygons)

    def emptied(self, rows: NDArray[np.bool_]) -> "OrientedBoxes":
        """Return the boxes, of which those of the mask ``rows``, bool [N], are a point."""
        return OrientedBoxes(
            *(np.where(rows[:, None, None], 0.0, one) for one in (self.corners, self.polygons))
        )

    def around_masks(self, masks: NDArray[np.generic]) -> "OrientedBoxes":
        """Return boxes that show the pixels of a mask each that are not 0; one without such pixels is a point at (0, 0)."""
        shown = [_pixel_hull(np.argwhere(mask)[:, ::-1].astype(np.float64) + 0.5) for mask in masks]
        empty = np.zeros((1, 2))
        return OrientedBoxes(
            self.corners, polygon_math.stacked([one if len(one) else empty for one in shown])
        )

    def clip(self, size: Size) -> "OrientedBoxes":
        """Return the boxes with what an image of ``size`` shows of them."""
        clipped = polygon_math.clip(self.polygons, size)
        # A box outside becomes a point on the border.
        centres = np.clip(self.polygons.mean(axis=1, keepdims=True), 0, size[::-1])
        return OrientedBoxes(self.corners, np.where(np.isnan(clipped), centres, clipped))

    def lies_outside(self, size: Size) -> NDArray[np.bool_]:
        """Return which centres lie outside an image of ``size``, bool [N]."""
        centres = self.corners.mean(axis=1)
        return np.asarray(((centres < 0) | (centres > size[::-1])).any(axis=1))

    def reaches_outside(self, size: Size) -> NDArray[np.bool_]:
        """Return which boxes show something beyond an image of ``size``, bool [N]."""
        beyond = (self.polygons < -_ROUNDING) | (self.polygons > np.array(size[::-1]) + _ROUNDING)
        return np.asarray(beyond.any(axis=(1, 2)))

    def move(self, matrix: NDArray[np.float64]) -> "OrientedBoxes":
        """Return the boxes moved by a matrix [3, 3]; of what is shown, the part in front of its horizon."""
        shown = self.polygons @ matrix[:, :2].T + matrix[:, 2]
        if not (matrix[2] == (0, 0, 1)).all():
            shown = polygon_math.cut(shown, (0, 0, -1), -box_math.FAR)
        shown = shown[..., :2] / shown[..., 2:]
        corners = box_math.move_points(self.corners.reshape(-1, 2), matrix).reshape(-1, 4, 2)
        return OrientedBoxes(_clockwise(corners), np.where(np.isnan(shown), _EMPTY, shown))

    def move_along(self, field: NDArray[np.float32]) -> "OrientedBoxes":
        """Return the boxes moved along a displacement field [2, H, W]; see `gpu_aug.targets.boxes.move_boxes_along`."""
        corners = box_math.move_points_along(self.corners.reshape(-1, 2), field, search=False)
        sources = _SourceLookup(field)
        shown = [_moved_along(polygon, field, sources) for polygon in self.polygons]
        return OrientedBoxes(_clockwise(corners.reshape(-1, 4, 2)), polygon_math.stacked(shown))

    def shrink_in_holes(
        self, hidden: NDArray[np.bool_], params: BoxParams
    ) -> tuple["OrientedBoxes", NDArray[np.bool_]]:
        """Return boxes that show their pixels that are not hidden; see `gpu_aug.targets.boxes.shrink_in_holes`."""
        shrunk, kept = list(self.polygons), np.zeros(len(self), bool)
        for row, polygon in enumerate(self.polygons):
            centres = polygon_math.pixel_centres(polygon, hidden.shape)
            x, y = centres.astype(np.int64).T
            seen = centres[~hidden[y, x]]
            num, whole = len(seen), len(centres)
            kept[row] = num > 0 and num >= params.min_area and num >= params.min_visibility * whole
            if kept[row] and num < whole:
                seen_part = _pixel_hull(seen)[None]
                for normal, limit in zip(*polygon_math.half_planes(polygon), strict=True):
                    seen_part = polygon_math.cut(seen_part, normal, limit)
                shrunk[row] = seen_part[0]
        return OrientedBoxes(self.corners, polygon_math.stacked(shrunk)), kept


def from_corners(corners: Polygons) -> OrientedBoxes:
    """Return the boxes with these corners, float64 [N, 4, 2], whose order becomes clockwise from the first corner.

    Corners that are not those of a convex quadrilateral become its convex hull. A warning says so of boxes that are far from
    rectangles.
    """
    following = np.roll(corners, -1, axis=1) - corners
    turns = _cross(following, np.roll(following, -1, axis=1))
    turned = turns.sum(axis=1) < 0
    corners = np.where(turned[:, None, None], corners[:, [0, 3, 2, 1]], corners)
    polygons = corners
    bent = np.asarray((turns > 0).any(axis=1) & (turns < 0).any(axis=1))
    if bent.any():
        polygons = polygon_math.stacked(
            [
                polygon_math.hull(one) if crooked else one
                for one, crooked in zip(corners, bent, strict=True)
            ]
        )
    deviation, diagonal = _deviation(corners)
    pixels, share = _NO_RECTANGLE_IN_DATA
    if (bent | (deviation > np.maximum(pixels, share * diagonal))).any():
        warnings.warn(
            "the four corners of some boxes are not those of a rectangle: each such box becomes the rectangle of least area "
            "around its corners",
            UserWarning,
            stacklevel=2,
        )
    return OrientedBoxes(corners, polygons)


def rectangles(boxes: OrientedBoxes) -> Polygons:
    """Return the corners of oriented boxes, float64 [N, 4, 2], clockwise on the screen from the first corner.

    A box that is still a rectangle keeps its corners. Every other one becomes the rectangle of least area around what the image
    shows of it, and its first side is the one nearest to the direction of the box's first side.
    """
    corners, shown = boxes.corners, boxes.polygons
    heading = corners[:, 1] - corners[:, 0]
    length = np.hypot(*heading.T)[:, None]
    with np.errstate(invalid="ignore"):
        heading = np.where(length > 0, heading / np.where(length > 0, length, 1), (1.0, 0.0))
        full = polygon_math.areas(corners)
        deviation, diagonal = _deviation(corners)
        same = np.abs(polygon_math.areas(shown) - full) <= _SAME * full
        same &= deviation <= _SAME * diagonal
    fitted = polygon_math.least_rectangles(shown, heading)
    return np.where(same[:, None, None], corners, fitted)


def joined(parts: Sequence[OrientedBoxes]) -> OrientedBoxes:
    """Return the boxes of several images together."""
    polygons = polygon_math.stacked([polygon for part in parts for polygon in part.polygons])
    return OrientedBoxes(np.concatenate([part.corners for part in parts]), polygons)


def is_deformed(boxes: OrientedBoxes) -> bool:
    """Return whether a box is no rectangle any more, apart from what is clipped."""
    deviation, diagonal = _deviation(boxes.corners)
    return bool((deviation > _NO_RECTANGLE * diagonal).any())


class _SourceLookup:
    """Finds the outer pixels of those whose sources lie in a polygon, for a displacement field [2, H, W].

    Only the rows and columns with sources near the polygon are searched: all pixels would take 60 ms per megapixel and polygon.
    """

    def __init__(self, field: NDArray[np.float32]) -> None:
        height, width = field.shape[1:]
        self.places = np.stack(np.meshgrid(np.arange(0.5, width), np.arange(0.5, height)))
        self.sources: NDArray[np.float64] = self.places + field.astype(np.float64)
        # Of each row and of each column, [2, H or W].
        self.spans = [(self.sources.min(axis=axis), self.sources.max(axis=axis)) for axis in (2, 1)]

    def pixels_in(self, polygon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the centres of the first and the last pixel of each row whose sources lie in a polygon [K, 2], float64 [n, 2]."""
        # A pixel more on all sides, so that rounding excludes none.
        low, high = polygon.min(axis=0)[:, None] - 1, polygon.max(axis=0)[:, None] + 1
        rows, columns = (
            np.flatnonzero(((least <= high) & (most >= low)).all(axis=0))
            for least, most in self.spans
        )
        window = slice(None), rows[:, None], columns
        sources, places = (one[window].reshape(2, -1).T for one in (self.sources, self.places))
        centres = places[polygon_math.contains(polygon, sources)]
        # A convex hull does not depend on the others, which take most of its time.
        is_new = np.diff(centres[:, 1], prepend=-1, append=-1) != 0
        return np.asarray(centres[is_new[:-1] | is_new[1:]])


def _moved_along(
    polygon: NDArray[np.float64], field: NDArray[np.float32], sources: _SourceLookup
) -> NDArray[np.float64]:
    """Return the convex hull of the part of the result of a Remap that shows a polygon.

    If the field folds or tears, the moved border misses or exceeds what is seen, so each side is limited to within a pixel of the
    pixels that show the polygon, except where these reach the image's border.
    """
    moved = box_math.move_points_along(polygon_math.border(polygon), field, search=False)
    moved = moved[~np.isnan(moved).any(axis=1)]
    extent = np.array(field.shape[:0:-1])  # width, height
    centres = sources.pixels_in(polygon)
    if not len(centres):
        return polygon_math.hull(moved) if len(moved) else np.full((1, 2), _EMPTY)
    shown = polygon_math.hull(np.concatenate([moved, centres]))[None]
    for normal, limit in zip(*polygon_math.half_planes(_pixel_hull(centres)), strict=True):
        if not _is_on_border(normal, limit, extent):
            shown = polygon_math.cut(shown, normal, limit + 1)
    limited: NDArray[np.float64] = shown[0]
    return limited


def _is_on_border(normal: NDArray[np.float64], limit: float, extent: NDArray[np.int64]) -> bool:
    """Return whether the side of a polygon lies on the border of an image with this width and height."""
    axis = int(np.abs(normal).argmax())
    return bool(abs(normal[axis]) == 1 and limit == (extent[axis] if normal[axis] > 0 else 0))


def _pixel_hull(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the convex hull of the pixels with these centres, [n, 2]."""
    offsets = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return polygon_math.hull((centres[:, None] + offsets).reshape(-1, 2))


def _clockwise(corners: Polygons) -> Polygons:
    """Return corners with the first side, and so the heading, kept and reversed where a mirror turned their order round.

    Source: the order of torchvision's ``horizontal_flip`` and ``vertical_flip`` of rotated boxes.
    """
    with np.errstate(invalid="ignore"):
        turned = _cross(corners[:, 1] - corners[:, 0], corners[:, 3] - corners[:, 0]) < 0
    return np.where(turned[:, None, None], corners[:, [1, 0, 3, 2]], corners)


def _cross(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]


def _deviation(corners: Polygons) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return by how many pixels corners deviate from a rectangle, and the longer diagonal, float64 [N] each.

    The diagonals of a rectangle halve each other and are equally long.
    """
    first, second = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    apart = corners[:, 0] + corners[:, 2] - corners[:, 1] - corners[:, 3]
    lengths = np.hypot(*first.T), np.hypot(*second.T)
    deviation = np.maximum(np.hypot(*apart.T), np.abs(lengths[0] - lengths[1])) / 2
    return deviation, np.maximum(*lengths)
