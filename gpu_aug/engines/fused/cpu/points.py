"""Compiled functions that compute which points of the source a line of the result shows; see ``program``, part 1."""

from typing import Any, NamedTuple

import numpy as np

from gpu_aug.compiled.jit import inlined, inner
from gpu_aug.engines.fused.cpu.memory import Integer, Real, floats_at, ints_at

_FAR = 1e9  # coordinates beyond would not fit into int32
# float32, as a plain number would make the results float64.
_ZERO, _ONE = np.float32(0), np.float32(1)


class Between(NamedTuple):
    """The frame of the image between two warps that are sampled as one interpolation.

    Attributes:
        height: Height of the frame, in pixels; 0 if there is no such frame.
        width: Width of the frame, in pixels.
        before: Matrix from points of the frame to points of the view, nine float64.
        is_edge: Whether a pixel outside the frame takes the value of the nearest pixel inside.
    """

    height: Integer
    width: Integer
    before: Any
    is_edge: bool


@inner
def find(back: Any, y: Integer, middle: Real, spare: Integer, width: Integer) -> None:
    """Compute the source point of each pixel of line ``y`` and write it to scratch memory.

    For each point these are the column and the line of the pixel above and to the left of it, int32, and the distance of the
    point from that pixel in both directions, float32.

    Args:
        back: Matrix from the result to the view, nine float64.
        y: Index of the line in the result.
        middle: 0.5 to measure from pixel centres (bilinear), 0 from pixel corners (nearest).
        spare: Address of the scratch memory.
        width: Width of the result, in pixels.
    """
    columns, lines = ints_at(spare, width), ints_at(spare + 4 * width, width)
    right, below = floats_at(spare + 8 * width, width), floats_at(spare + 12 * width, width)
    x0, y0, z0 = _row(back, y)
    projective = _is_projective(back)
    for x in range(width):
        across = x + 0.5
        u, v = back[0] * across + x0, back[3] * across + y0
        if projective:
            z = back[6] * across + z0
            u, v = u / z, v / z
        u = min(max(u - middle, -_FAR), _FAR)
        v = min(max(v - middle, -_FAR), _FAR)
        left, above = np.floor(u), np.floor(v)
        columns[x], lines[x] = np.int32(left), np.int32(above)
        right[x], below[x] = np.float32(u - left), np.float32(v - above)


@inner
def find_between(between: Between, back: Any, y: Integer, spare: Integer, width: Integer) -> None:
    """Compute the source point of each pixel of line ``y`` through two warps, and write it to scratch memory.

    The layout is that of ``find``, followed by the weight of the pixels inside the frame between the warps, float32, for
    ``hide``. A point outside the frame is moved to the nearest point inside whose value depends on no pixel outside.

    Args:
        between: The frame between the warps, and the map of the first one.
        back: Matrix from the result to the frame, nine float64.
        y: Index of the line in the result.
        spare: Address of the scratch memory.
        width: Width of the result, in pixels.
    """
    columns, lines = ints_at(spare, width), ints_at(spare + 4 * width, width)
    right, below = floats_at(spare + 8 * width, width), floats_at(spare + 12 * width, width)
    cover = floats_at(spare + 32 * width, width)
    x0, y0, z0 = _row(back, y)
    projective, bent = _is_projective(back), _is_projective(between.before)
    before, is_edge = between.before, between.is_edge
    long, tall = np.float64(between.width), np.float64(between.height)
    for x in range(width):
        across = x + 0.5
        u, v = back[0] * across + x0, back[3] * across + y0
        if projective:
            z = back[6] * across + z0
            u, v = u / z, v / z
        is_known = u == u and v == v
        share = min(max(min(u, long - u) + 0.5, 0.0), 1.0)
        share *= min(max(min(v, tall - v) + 0.5, 0.0), 1.0)
        cover[x] = (_ONE if is_edge else np.float32(share)) if is_known else _ZERO
        u = min(max(u, 0.5), long - 0.5)
        v = min(max(v, 0.5), tall - 0.5)
        s = before[0] * u + before[1] * v + before[2]
        t = before[3] * u + before[4] * v + before[5]
        if bent:
            z = before[6] * u + before[7] * v + before[8]
            s, t = s / z, t / z
        s = min(max(s - 0.5, -_FAR), _FAR)
        t = min(max(t - 0.5, -_FAR), _FAR)
        left, above = np.floor(s), np.floor(t)
        columns[x], lines[x] = np.int32(left), np.int32(above)
        right[x], below[x] = np.float32(s - left), np.float32(t - above)


@inner
def stays_inside(between: Between, back: Any, y: Integer, width: Integer) -> Any:
    """Return whether all points of line ``y`` lie inside the frame between two warps.

    Both ends of the line are tested, which is enough for an affine map; for projective maps the result is False.
    """
    if _is_projective(back):
        return False
    x0, y0, _ = _row(back, y)
    for across in (0.5, width - 0.5):
        u, v = back[0] * across + x0, back[3] * across + y0
        if not (0.5 <= u <= between.width - 0.5 and 0.5 <= v <= between.height - 0.5):
            return False
    return True


@inner
def product(one: Any, two: Any) -> Any:
    """Return the product of two matrices, nine numbers each: ``two`` is applied first."""
    return (
        one[0] * two[0] + one[1] * two[3] + one[2] * two[6],
        one[0] * two[1] + one[1] * two[4] + one[2] * two[7],
        one[0] * two[2] + one[1] * two[5] + one[2] * two[8],
        one[3] * two[0] + one[4] * two[3] + one[5] * two[6],
        one[3] * two[1] + one[4] * two[4] + one[5] * two[7],
        one[3] * two[2] + one[4] * two[5] + one[5] * two[8],
        one[6] * two[0] + one[7] * two[3] + one[8] * two[6],
        one[6] * two[1] + one[7] * two[4] + one[8] * two[7],
        one[6] * two[2] + one[7] * two[5] + one[8] * two[8],
    )


@inner
def hide(line: Integer, width: Integer, spare: Integer, fill: Any, is_twice: bool) -> None:
    """Blend a line with ``fill`` by the weights that ``find_between`` wrote, so that pixels outside the frame get the fill.

    Args:
        line: Address of the line, float32 [3, width].
        width: Width of the result, in pixels.
        spare: Address of the scratch memory that ``find_between`` wrote.
        fill: Colour outside the frame, three float32.
        is_twice: Whether the weight of the fill is applied twice; see CONSTANT_TWICE.
    """
    cover = floats_at(spare + 32 * width, width)
    for channel in range(3):
        values, beside = floats_at(line + 4 * channel * width, width), fill[channel]
        for x in range(width):
            share = cover[x]
            if is_twice:
                value = (values[x] * share - beside) * share + beside
            else:
                value = values[x] * share + beside * (_ONE - share)
            values[x] = value if share > _ZERO else beside


@inlined
def _row(back: Any, y: Integer) -> Any:
    """Return the terms of X, Y and Z that are equal for all pixels of a line."""
    down = y + 0.5
    return back[1] * down + back[2], back[4] * down + back[5], back[7] * down + back[8]


@inlined
def _is_projective(matrix: Any) -> Any:
    return matrix[6] != 0.0 or matrix[7] != 0.0 or matrix[8] != 1.0
