"""Convex polygons, many at once: cutting, areas and the rectangles of least area around them.

Polygons are float64 [N, K, 2] of (x, y) with their vertices in order, in either direction. A polygon with fewer than K vertices
repeats its last one, which changes neither its area nor what lies around it.
"""

import numpy as np
from numpy.typing import NDArray

Polygons = NDArray[np.float64]
Size = tuple[int, int]

_STEP = 4.0  # pixels between the points of a border, as for boxes; see boxes.move_boxes_along
_MOST_STEPS = 64  # points on a side, which bounds the time
# Among rectangles of equal area the one along the heading wins: rounding alone would choose among the sides of a triangle.
_PREFERENCE = 1e-6


def areas(polygons: Polygons) -> NDArray[np.float64]:
    """Return the areas of polygons, float64 [N]."""
    x, y = (polygons - polygons[:, :1]).transpose(2, 0, 1)
    twice = (x * np.roll(y, -1, axis=1) - y * np.roll(x, -1, axis=1)).sum(axis=1)
    area: NDArray[np.float64] = np.abs(twice) / 2
    return area


def cut(polygons: Polygons, normal: tuple[float, ...], limit: float) -> Polygons:
    """Return the parts of polygons whose points p have ``p @ normal <= limit``; NaN if nothing is left.

    Args:
        polygons: Polygons [N, K, D] in any number of dimensions, also in homogeneous coordinates.
        normal: Normal of the line or plane along which they are cut, pointing to the side that is cut off.
        limit: Position of the line or plane.
    """
    distance = polygons @ np.array(normal) - limit
    outside = distance > 0
    if not outside.any():
        return polygons
    following = np.roll(distance, -1, axis=1)
    crosses = outside != (following > 0)
    share = distance / np.where(crosses, distance - following, 1)
    crossing = polygons + share[..., None] * (np.roll(polygons, -1, axis=1) - polygons)
    num, _, dimensions = polygons.shape
    points = np.stack([polygons, crossing], axis=2).reshape(num, -1, dimensions)
    exists = np.stack([distance <= 0, crosses], axis=2).reshape(num, -1)
    return _packed(points, exists)


def clip(polygons: Polygons, size: Size) -> Polygons:
    """Return the parts of polygons inside an image of ``size``; NaN if nothing is left."""
    height, width = size
    for normal, limit in (((-1, 0), 0), ((1, 0), width), ((0, -1), 0), ((0, 1), height)):
        polygons = cut(polygons, normal, limit)
    return polygons


def around(polygons: Polygons) -> NDArray[np.float64]:
    """Return axis-aligned boxes around polygons, float64 [N, 4]."""
    return np.concatenate([polygons.min(axis=1), polygons.max(axis=1)], axis=1)


def half_planes(polygon: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sides of one polygon [K, 2] as outward unit normals [k, 2] and limits [k]; see `cut`."""
    sides = np.roll(polygon, -1, axis=0) - polygon
    lengths = np.hypot(*sides.T)
    solid = lengths > 0  # repeated vertices have no side
    start, (x, y) = polygon[solid], (sides[solid] / lengths[solid, None]).T
    inner = polygon.mean(axis=0) - start
    outwards = np.where(x * inner[:, 1] - y * inner[:, 0] > 0, -1, 1)  # for either direction
    normals = np.stack([-y, x], axis=1) * outwards[:, None]
    return normals, (normals * start).sum(axis=1)


def contains(polygon: NDArray[np.float64], points: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which points [n, 2] lie in one polygon [K, 2], bool [n]; none lies in a polygon that is a point."""
    normals, limits = half_planes(polygon)
    return np.asarray((points @ normals.T <= limits).all(axis=1) & (len(normals) > 0))


def hull(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the vertices of the convex hull of points [n, 2]; none without points."""
    import cv2

    if not len(points):
        return points

    # OpenCV chooses in float32, and its choice is returned in float64.
    chosen = cv2.convexHull(points.astype(np.float32)[:, None], returnPoints=False)
    vertices: NDArray[np.float64] = points[chosen.ravel()]
    return vertices


def stacked(polygons: list[NDArray[np.float64]]) -> Polygons:
    """Return single polygons [K_i, 2] as one array."""
    most = max((len(polygon) for polygon in polygons), default=1)
    padded = [np.pad(one, ((0, most - len(one)), (0, 0)), mode="edge") for one in polygons]
    return np.array(padded, np.float64).reshape(-1, most, 2)


def border(polygon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return points on the border of one polygon [K, 2], at most 4 pixels apart and up to 64 on each side."""
    following = np.roll(polygon, -1, axis=0)
    longest = np.hypot(*(following - polygon).T).max()
    steps = int(np.clip(np.ceil(longest / _STEP), 2, _MOST_STEPS))
    share = (np.arange(steps) / steps)[:, None]
    return (polygon[:, None] + share * (following - polygon)[:, None]).reshape(-1, 2)


def pixel_centres(polygon: NDArray[np.float64], size: Size) -> NDArray[np.float64]:
    """Return the centres of the pixels of an image of ``size`` that lie in one polygon [K, 2], float64 [n, 2]."""
    low = np.maximum(np.floor(polygon.min(axis=0)), 0)
    high = np.minimum(np.ceil(polygon.max(axis=0)), size[::-1])
    x, y = (np.arange(start, stop) + 0.5 for start, stop in zip(low, high, strict=True))
    centres = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return centres[contains(polygon, centres)]


def least_rectangles(polygons: Polygons, heading: NDArray[np.float64]) -> Polygons:
    """Return the rectangles of least area around polygons, float64 [N, 4, 2], clockwise on the screen.

    Args:
        polygons: The polygons; one of the rectangle's sides lies along one of theirs (Freeman and Shapira, 1975).
        heading: Unit vectors, [N, 2]. The side from the first to the second corner is the one nearest to them.
    """
    sides = np.roll(polygons, -1, axis=1) - polygons
    lengths = np.hypot(sides[..., 0], sides[..., 1])[..., None]
    directions = np.where(lengths > 0, sides / np.where(lengths > 0, lengths, 1), heading[:, None])
    low, high = _extents(polygons, directions)
    deviation = 1 - np.abs(_turned(directions) @ heading[:, None, :, None]).max(axis=(2, 3))
    best = ((high - low).prod(axis=2) * (1 + _PREFERENCE * deviation)).argmin(axis=1)
    turned = _turned(directions[np.arange(len(best)), best])
    nearest = (turned @ heading[..., None])[..., 0].argmax(axis=1)
    along = turned[np.arange(len(best)), nearest]
    (low,), (high,) = (ends.transpose(1, 0, 2) for ends in _extents(polygons, along[:, None]))
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    corners = [(low, low), (high, low), (high, high), (low, high)]
    return np.stack([x[:, :1] * along + y[:, 1:] * across for x, y in corners], axis=1)


def _turned(directions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return directions [..., 2] turned by 0, 90, 180 and 270 degrees, [..., 4, 2]."""
    x, y = directions[..., 0], directions[..., 1]
    turned = np.stack([x, y, -y, x, -x, -y, y, -x], axis=-1)
    return turned.reshape(*x.shape, 4, 2)


def _extents(
    polygons: Polygons, directions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the greatest coordinates along and across directions [N, n, 2], [N, n, 2] each."""
    axes = _turned(directions)[:, :, :2]
    places = np.einsum("nkd,naed->naek", polygons, axes)
    return places.min(axis=3), places.max(axis=3)


def _packed(points: NDArray[np.float64], exists: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the points that exist, in order, with the last one repeated; NaN in rows without a point."""
    counts = exists.sum(axis=1)
    order = np.argsort(~exists, axis=1, kind="stable")
    columns = np.arange(max(counts.max(initial=1), 1))
    places = np.minimum(columns, np.maximum(counts - 1, 0)[:, None])
    chosen = np.take_along_axis(order, places, axis=1)
    packed = np.take_along_axis(points, chosen[..., None], axis=1)
    return np.where((counts > 0)[:, None, None], packed, np.nan)
