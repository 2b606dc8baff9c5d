"""The geometry of boxes and keypoints, which all engines share.

Coordinates are continuous, (x, y): the pixel in row i and column j covers [j, j + 1) x [i, i + 1). Boxes are float64 [N, 4],
(left, top, right, bottom); points are float64 [N, 2]; a size is (height, width). Functions of ``AnyBoxes`` also take
OrientedBoxes, whose methods they call.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.targets import masks as mask_math
from gpu_aug.targets.targets import BoxParams

Boxes = NDArray[np.float64]
AnyBoxes = Any
"""Boxes, float64 [N, 4], or OrientedBoxes, whose module imports this one."""
Points = NDArray[np.float64]
Size = tuple[int, int]

_TINY = 1e-7  # a smaller area counts as none; Albumentations' number
FAR = 1e-6
"""Homogeneous coordinates below this are on or behind the horizon."""
_STEP = 4.0  # pixels between the points of a box's border that are moved along a field
_MOST_STEPS = 64  # points on a side of a large box, which bounds the time
_TURNS = 30  # most steps of Newton's method, which settles in a few where the field is smooth
_NOWHERE = 1.0  # pixels; a point whose error stays larger is not shown
_CLOSE = 0.01  # pixels; a point whose error is smaller has settled


def to_xyxy(boxes: Boxes, params: BoxParams, size: Size) -> Boxes:
    """Return boxes that are in the format of ``params`` as corners in pixels, for an image of ``size``."""
    boxes = boxes.copy()
    if params.format == "cxcywh":
        boxes[:, :2] -= boxes[:, 2:] / 2
    if params.format != "xyxy":
        boxes[:, 2:] += boxes[:, :2]
    return boxes * _extent(size) if params.normalized else boxes


def from_xyxy(boxes: Boxes, params: BoxParams, size: Size) -> Boxes:
    """Return boxes that are corners in pixels in the format of ``params``, for an image of ``size``."""
    boxes = boxes / _extent(size) if params.normalized else boxes.copy()
    if params.format != "xyxy":
        boxes[:, 2:] -= boxes[:, :2]
    if params.format == "cxcywh":
        boxes[:, :2] += boxes[:, 2:] / 2
    return boxes


def areas(boxes: AnyBoxes) -> NDArray[np.float64]:
    """Return the areas of boxes, float64 [N]; 0 if right or bottom is not larger than left or top."""
    area: NDArray[np.float64] = (
        np.maximum(boxes[:, 2:] - boxes[:, :2], 0).prod(axis=1)
        if isinstance(boxes, np.ndarray)
        else boxes.areas()
    )
    return area


def sides(boxes: AnyBoxes) -> NDArray[np.float64]:
    """Return the widths and heights of boxes, float64 [N, 2]."""
    is_upright = isinstance(boxes, np.ndarray)
    lengths: NDArray[np.float64] = boxes[:, 2:] - boxes[:, :2] if is_upright else boxes.sides()
    return lengths


def around(boxes: AnyBoxes) -> Boxes:
    """Return the axis-aligned boxes around boxes, (left, top, right, bottom), float64 [N, 4]."""
    upright: Boxes = boxes if isinstance(boxes, np.ndarray) else boxes.around()
    return upright


def clip(boxes: AnyBoxes, size: Size) -> AnyBoxes:
    """Return boxes clipped at the border of the image."""
    if not isinstance(boxes, np.ndarray):
        return boxes.clip(size)
    return np.clip(boxes, 0, _extent(size))


def lies_outside(boxes: AnyBoxes, size: Size, tolerance: float) -> NDArray[np.bool_]:
    """Return which boxes are not in the image, bool [N]: they extend beyond it, or the centre of an oriented box lies outside.

    Args:
        boxes: The boxes.
        size: Height and width of the image.
        tolerance: Pixels by which an axis-aligned box may extend beyond the image.
    """
    if not isinstance(boxes, np.ndarray):
        return np.asarray(boxes.lies_outside(size))
    return np.asarray((np.abs(np.clip(boxes, 0, _extent(size)) - boxes) > tolerance).any(axis=1))


def reaches_outside(boxes: AnyBoxes, size: Size) -> NDArray[np.bool_]:
    """Return which boxes show something beyond the image, bool [N]."""
    if not isinstance(boxes, np.ndarray):
        return np.asarray(boxes.reaches_outside(size))
    return np.asarray((clip(boxes, size) != boxes).any(axis=1))


def emptied(boxes: AnyBoxes, rows: NDArray[np.bool_]) -> AnyBoxes:
    """Return boxes of which those of the mask ``rows``, bool [N], have no area."""
    if not isinstance(boxes, np.ndarray):
        return boxes.emptied(rows)
    return np.where(rows[:, None], 0.0, boxes)


def around_masks(boxes: AnyBoxes, masks: NDArray[Any]) -> AnyBoxes:
    """Return boxes around the pixels of each mask that are not 0, in the form of ``boxes``, which have a mask each."""
    if not isinstance(boxes, np.ndarray):
        return boxes.around_masks(masks)
    return mask_math.tight_boxes(masks)


def keep(
    boxes: AnyBoxes, params: BoxParams, size: Size, tight: AnyBoxes | None = None
) -> tuple[AnyBoxes, NDArray[np.bool_]]:
    """Clip boxes, and decide which of them are kept.

    Args:
        boxes: The moved boxes, whose visible share is compared with ``min_visibility``.
        params: Limits.
        size: Height and width of the image.
        tight: Boxes that take the place of the clipped ones, and whose sizes and areas are compared with the other limits.

    Returns:
        All boxes, clipped, or ``tight``, and a mask of those to keep, bool [N].
    """
    clipped = clip(boxes, size)
    visible = areas(clipped) >= (params.min_visibility - _TINY) * areas(boxes)
    clipped = clipped if tight is None else tight
    after, (width, height) = areas(clipped), sides(clipped).T
    kept = (
        visible
        & (after >= params.min_area - _TINY)
        & (width >= params.min_width - _TINY)
        & (height >= params.min_height - _TINY)
    )
    if not params.keep_empty:
        kept &= after >= _TINY
    if params.max_accept_ratio is not None:
        longer, shorter = np.maximum(width, height), np.minimum(width, height)
        kept &= longer <= params.max_accept_ratio * (shorter + _TINY)
    return clipped, kept


def move_points(points: Points, matrix: NDArray[np.float64]) -> Points:
    """Return points moved by a matrix [3, 3]; points on or behind its horizon become NaN, and NaN stays NaN."""
    moved = _homogeneous(points) @ matrix.T
    ahead = moved[:, 2:] > FAR
    return np.where(ahead, moved[:, :2], np.nan) / np.where(ahead, moved[:, 2:], 1)


def move_boxes(boxes: AnyBoxes, matrix: NDArray[np.float64]) -> AnyBoxes:
    """Return boxes around the corners of boxes that a matrix [3, 3] moves.

    If the matrix has a horizon, only the part of a box in front of it is used.
    """
    if not isinstance(boxes, np.ndarray):
        return boxes.move(matrix)
    corners = _homogeneous(boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 2)) @ matrix.T
    corners = corners.reshape(-1, 4, 3)
    if (matrix[2] == (0, 0, 1)).all():
        return _around(corners[:, :, :2])
    following = np.roll(corners, -1, axis=1)
    here, there = corners[:, :, 2:], following[:, :, 2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (FAR - here) / (there - here)  # where the edge meets the horizon
        crossing = corners + share * (following - corners)
        crossing = np.where((here > FAR) != (there > FAR), crossing, np.nan)
        points = np.concatenate([np.where(here > FAR, corners, np.nan), crossing], axis=1)
        points = points[:, :, :2] / points[:, :, 2:]
    return _around(points)


def move_points_along(points: Points, field: NDArray[np.float32], *, search: bool = True) -> Points:
    """Return the positions in the result of a Remap at which points of the source appear.

    Args:
        points: Points in the source, float64 [N, 2].
        field: Displacements (dx, dy) at pixel centres, [2, H, W]: result(x, y) = source(x + dx, y + dy). Between pixel
            centres the field is bilinear, outside the image that of the nearest pixel.
        search: Whether a point whose solution lies outside the image is also searched for inside, which matters if the
            field is torn.

    Returns:
        The positions q with q + field(q) = p for each point p, float64 [N, 2]. They are found by Newton's method from
        p - field(p) and, if that does not converge inside the image, from the pixel whose source is nearest. A point that
        the result does not show, because the field folds, is NaN.
    """
    if np.isnan(points).any():
        known = ~np.isnan(points).any(axis=1)
        found = np.full_like(points, np.nan)
        found[known] = move_points_along(points[known], field, search=search)
        return found
    found, error = _settle(points, points - _sample(field, points)[0], field)
    size = field.shape[1:]
    lost = np.flatnonzero((error > _CLOSE) | (search & ~inside(found, size)))
    if len(lost):
        again, other = _settle(points[lost], _nearest(points[lost], field), field)
        better = np.where(
            error[lost] > _CLOSE, other < error[lost], (other <= _CLOSE) & inside(again, size)
        )
        found[lost[better]], error[lost[better]] = again[better], other[better]
    return np.where(error[:, None] <= _NOWHERE, found, np.nan)


def move_boxes_along(boxes: AnyBoxes, field: NDArray[np.float32]) -> AnyBoxes:
    """Return boxes around the part of the result of a Remap that shows each box.

    Points on the borders, at most 4 pixels apart and up to 64 on each side, are moved along the field. If it folds or
    tears, they miss
    parts of the inside, so each side is also limited to within a pixel of the pixels that show the box, except if these reach the
    image's border.
    """
    if not isinstance(boxes, np.ndarray):
        return boxes.move_along(field)
    if len(boxes) == 0:
        return boxes.copy()
    longest = float((boxes[:, 2:] - boxes[:, :2]).max(initial=0))
    steps = int(np.clip(np.ceil(longest / _STEP), 2, _MOST_STEPS))
    along, zero, one = np.arange(steps) / steps, np.zeros(steps), np.ones(steps)
    x = np.concatenate([along, one, 1 - along, zero])
    y = np.concatenate([zero, along, one, 1 - along])
    share = np.stack([x, y], axis=1)
    border = boxes[:, None, :2] + share * (boxes[:, None, 2:] - boxes[:, None, :2])
    moved = move_points_along(border.reshape(-1, 2), field, search=False)
    around = _around(moved.reshape(len(boxes), -1, 2))

    extent = np.array(field.shape[:0:-1])  # width, height
    for row, seen in enumerate(_shown(boxes, field)):
        if np.isnan(seen).any():
            continue
        least = np.where(seen[:2] == 0, -np.inf, seen[:2] - 1), seen[2:] - 1
        most = seen[:2] + 1, np.where(seen[2:] == extent, np.inf, seen[2:] + 1)
        around[row] = np.clip(around[row], np.concatenate(least), np.concatenate(most))
    return around


def _shown(boxes: Boxes, field: NDArray[np.float32]) -> Boxes:
    """Return boxes around the pixels whose source lies in each box; NaN for boxes without such pixels."""
    _, height, width = field.shape
    x, y = field[0] + np.arange(0.5, width), field[1] + np.arange(0.5, height)[:, None]
    shown = np.full(boxes.shape, np.nan)
    for row, (left, top, right, bottom) in enumerate(boxes):
        within = (x >= left) & (x < right) & (y >= top) & (y < bottom)
        rows, columns = np.flatnonzero(within.any(axis=1)), np.flatnonzero(within.any(axis=0))
        if len(rows):
            shown[row] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return shown


def inside(points: Points, size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return which points lie inside the image, [0, width) and [0, height), bool [N]."""
    extent = np.array(size[::-1])
    within = (points >= 0) & (points < extent)
    return np.asarray(within.all(axis=1))


def in_holes(points: Points, holes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which points lie in one of the rectangles [n, 4] (top, left, bottom, right), bool [N]."""
    y, x = points[:, 1:], points[:, :1]
    top, left, bottom, right = holes.T
    within: NDArray[np.bool_] = ((y >= top) & (y < bottom) & (x >= left) & (x < right)).any(axis=1)
    return within


def shuffle_points(points: Points, tiles: NDArray[np.int64], sources: NDArray[np.int64]) -> Points:
    """Return points that moved with the tile they lie in; see RandomGridShuffle."""
    moved = points.copy()
    for tile, source in zip(tiles, sources, strict=True):
        within = in_holes(points, source[None])
        moved[within] = points[within] + (tile[:2] - source[:2])[::-1]
    return moved


def shrink_in_holes(
    boxes: AnyBoxes, hidden: NDArray[np.bool_], params: BoxParams
) -> tuple[AnyBoxes, NDArray[np.bool_]]:
    """Shrink boxes to their pixels that are not hidden, and decide which of them are kept.

    Args:
        boxes: Boxes inside the image.
        hidden: Which pixels are hidden, bool [H, W].
        params: Limits for the visible pixels: min_area and min_visibility.

    Returns:
        All boxes, shrunk, and a mask of those to keep, bool [N].

    Source: Albumentations ``filter_bboxes_by_holes``, which rounds corners towards zero.
    """
    if not isinstance(boxes, np.ndarray):
        shown, visible = boxes.shrink_in_holes(hidden, params)
        return shown, visible
    shrunk, kept = boxes.copy(), np.zeros(len(boxes), bool)
    for row, (left, top, right, bottom) in enumerate(boxes.astype(np.int64)):
        part = ~hidden[max(top, 0) : bottom, max(left, 0) : right]
        num, whole = int(part.sum()), (right - left) * (bottom - top)
        kept[row] = num > 0 and num >= params.min_area and num >= params.min_visibility * whole
        if kept[row]:
            rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
            first = max(left, 0), max(top, 0)
            shrunk[row, :2] = first[0] + columns[0], first[1] + rows[0]
            shrunk[row, 2:] = first[0] + columns[-1] + 1, first[1] + rows[-1] + 1
    return shrunk, kept


def _extent(size: Size) -> NDArray[np.float64]:
    height, width = size
    return np.array([width, height, width, height], np.float64)


def _homogeneous(points: Points) -> NDArray[np.float64]:
    return np.concatenate([points, np.ones((len(points), 1))], axis=1)


def _around(points: NDArray[np.float64]) -> Boxes:
    """Return boxes around points [N, n, 2], ignoring NaN; without a point a box is empty."""
    seen = ~np.isnan(points)
    low = np.where(seen, points, np.inf).min(axis=1, initial=np.inf)
    high = np.where(seen, points, -np.inf).max(axis=1, initial=-np.inf)
    boxes = np.concatenate([low, high], axis=1)
    return np.where((low <= high).all(axis=1, keepdims=True), boxes, -1.0)


def _sample(
    field: NDArray[np.float32], points: Points
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the field at points, [N, 2], and its derivatives there, [N, 2 (dx, dy), 2 (by x, by y)]."""
    _, height, width = field.shape
    where = points - 0.5
    inner = np.clip(where, 0, (width - 1, height - 1))
    low = np.minimum(inner.astype(np.int64), (max(width - 2, 0), max(height - 2, 0)))
    (x, y), (along, down) = low.T, (inner - low).T
    right, below = np.minimum(x + 1, width - 1), np.minimum(y + 1, height - 1)
    a, b = field[:, y, x].astype(np.float64), field[:, y, right].astype(np.float64)
    c, d = field[:, below, x].astype(np.float64), field[:, below, right].astype(np.float64)
    upper, lower = a + along * (b - a), c + along * (d - c)
    values = upper + down * (lower - upper)
    by_x = (b - a) + down * ((d - c) - (b - a))
    slopes = np.stack([by_x, lower - upper], axis=2)  # [2, N, 2]
    slopes = np.where(where == inner, slopes, 0)  # constant beside the image
    return values.T, slopes.transpose(1, 0, 2)


def _settle(
    points: Points, start: Points, field: NDArray[np.float32]
) -> tuple[Points, NDArray[np.float64]]:
    """Solve q + field(q) = p by Newton's method from ``start``.

    Returns:
        The best q of all steps, [N, 2], and its error in pixels, [N].
    """
    q, best = start, start.copy()
    least = np.full(len(points), np.inf)
    for _ in range(_TURNS):
        values, slopes = _sample(field, q)
        rest = points - q - values
        error = np.abs(rest).max(axis=1)
        better = error < least
        best[better], least[better] = q[better], error[better]
        if (least < 1e-6).all():
            break
        q = q + _newton(rest, slopes)
    return best, least


def _newton(rest: Points, slopes: NDArray[np.float64]) -> Points:
    """Return the step of Newton's method, or ``rest`` itself for points at which the field folds."""
    a, b = 1 + slopes[:, 0, 0], slopes[:, 0, 1]
    c, d = slopes[:, 1, 0], 1 + slopes[:, 1, 1]
    determinant = a * d - b * c
    sound = determinant > 0.1
    divisor = np.where(sound, determinant, 1)
    x, y = rest.T
    step = np.stack([d * x - b * y, a * y - c * x], axis=1) / divisor[:, None]
    return np.where(sound[:, None], step, rest)


def _nearest(points: Points, field: NDArray[np.float32]) -> Points:
    """Return for each point the centre of the pixel whose source is nearest to it."""
    _, height, width = field.shape
    x, y = field[0] + np.arange(0.5, width), field[1] + np.arange(0.5, height)[:, None]
    found = np.empty_like(points)
    for row, point in enumerate(points):
        row_at, column_at = divmod(int(((x - point[0]) ** 2 + (y - point[1]) ** 2).argmin()), width)
        found[row] = column_at + 0.5, row_at + 0.5
    return found
