"""Triton functions that load the pixels of a tile from a source image; see ``program``, "1. Load".

A tile is a block of pixels [N] of the result. A bilinear sample outside the view is computed from a point inside: from the
nearest point for EDGE, from the mirrored point for mirrored borders, and for CONSTANT from the nearest point weighted by
``cover``, the weight of the pixels that exist; so two neighbouring pixels are read in any case. A uint8
image is read as 4-byte words: two words, seldom three, hold two neighbouring pixels of six bytes.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"
# ruff: noqa: N803 - compiled by Triton: constants in capitals

import triton
import triton.language as tl

from gpu_aug.engines.fused.compile.program import Border, Kind
from gpu_aug.engines.fused.triton.record import ANCHOR, FAR, HAS_EXACT, HAS_NEAR, NEAR

# Triton reads constants of modules only as constexpr.
_, _NEAREST, _BILINEAR = (tl.constexpr(int(kind)) for kind in Kind)
_CONSTANT, _EDGE, _REFLECT, _SYMMETRIC, _TWICE = (tl.constexpr(int(border)) for border in Border)

_NEAR, _FAR, _ANCHOR = tl.constexpr(NEAR), tl.constexpr(FAR), tl.constexpr(ANCHOR)
_HAS_NEAR, _HAS_EXACT = tl.constexpr(HAS_NEAR), tl.constexpr(HAS_EXACT)

# See `unit`, and the lower word of AFFINE of which 24 bits are read.
_PER_STEP = tl.constexpr(1 / 255)
_PER_FRACTION = tl.constexpr(2.0**-24)


@triton.jit
def unit(value):
    """Return ``value`` divided by 255; for integers up to 255 the quotient is correctly rounded."""
    quotient = value * _PER_STEP
    return tl.fma(tl.fma(quotient, -255.0, value), _PER_STEP, quotient)


@triton.jit
def _shifted(high, low, shift):
    """Return the lower word of the two-word number (high, low) shifted to the right by ``shift`` bits."""
    both = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    return (both >> shift.to(tl.uint64)).to(tl.uint32)


@triton.jit
def _byte(number, byte: tl.constexpr):
    return ((number >> (8 * byte)) & 255).to(tl.float32)


@triton.jit
def _pixel(address, is_float, offset, known):
    """Return red, green and blue of the pixels at an offset, and 0 for pixels that are not ``known``.

    float32 sources give their values, uint8 sources 0 to 255. ``known`` is a mask, or True for all.
    """
    if is_float:
        floats = address.to(tl.pointer_type(tl.float32)) + offset
        r = tl.load(floats, mask=known, other=0.0)
        g = tl.load(floats + 1, mask=known, other=0.0)
        b = tl.load(floats + 2, mask=known, other=0.0)
    else:
        words = address.to(tl.pointer_type(tl.uint32)) + (offset >> 2)
        low = tl.load(words, mask=known, other=0)
        high = tl.load(words + 1, mask=known & ((offset & 3) >= 2), other=0)
        number = _shifted(high, low, (offset & 3) * 8)
        r, g, b = _byte(number, 0), _byte(number, 1), _byte(number, 2)
    return r, g, b


@triton.jit
def _pair(address, is_float, offset, left, right):
    """Return the weighted sum of the pixel at an offset and its right neighbour."""
    if is_float:
        floats = address.to(tl.pointer_type(tl.float32)) + offset
        r = tl.load(floats) * left + tl.load(floats + 3) * right
        g = tl.load(floats + 1) * left + tl.load(floats + 4) * right
        b = tl.load(floats + 2) * left + tl.load(floats + 5) * right
    else:
        words = address.to(tl.pointer_type(tl.uint32)) + (offset >> 2)
        shift = (offset & 3) * 8
        low, high = tl.load(words), tl.load(words + 1)
        third = tl.load(words + 2, mask=(offset & 3) == 3, other=0)
        first, second = _shifted(high, low, shift), _shifted(third, high, shift)
        r = _byte(first, 0) * left + _byte(first, 3) * right
        g = _byte(first, 1) * left + _byte(second, 0) * right
        b = _byte(first, 2) * left + _byte(second, 1) * right
    return r, g, b


@triton.jit
def _mirrored(point, length, border):
    """Return a point, float64, mirrored into the range of pixel centres 0 to ``length - 1``."""
    first, period = 0.0, 2.0 * (length - 1).to(tl.float64)
    if border == _SYMMETRIC:
        first, period = 0.5, 2.0 * length.to(tl.float64)
    period = tl.maximum(period, 1.0)
    point = point + first
    point = point - period * tl.floor(point / period)
    return tl.minimum(point, period - point) - first


@triton.jit
def _split(point, length):
    """Split a coordinate into a pixel and a fraction for interpolation along one axis.

    Args:
        point: Coordinate, float32, in pixels from any origin.
        length: Coordinates of the first and the last pixel, float32, from the same origin.

    Returns:
        Index of the pixel before the point, int32; distance of the point from it; and the weight of the pixels that exist.
    """
    first, last = length
    within = tl.minimum(tl.maximum(point, first), last)
    before = tl.maximum(tl.minimum(tl.floor(within), last - 1.0), first)
    cover = tl.minimum(tl.minimum(point - first, last - point) + 1.0, 1.0)
    return before.to(tl.int32), within - before, tl.maximum(cover, 0.0)


@triton.jit
def _start(fixed, tile):
    """Return the source coordinate of a tile's corner along one axis, computed from a row of AFFINE.

    Returns:
        The integer part, int32, and the fraction, float32.
    """
    left, top = tile
    start = tl.load(fixed) * left + tl.load(fixed + 1) * top + tl.load(fixed + 2)
    fraction = ((start >> 8) & 0xFFFFFF).to(tl.int32).to(tl.float32) * _PER_FRACTION
    return (start >> 32).to(tl.int32), fraction


@triton.jit
def _near(fixed, slopes, tile, dx, dy, length):
    """Split source coordinates along one axis of an affine map as ``_split`` does, exactly enough without float64.

    The corner of the tile is computed in integers, and only the distances from it in float32.

    Args:
        fixed: Pointer to a row of AFFINE.
        slopes: Pointer to a row of SLOPES.
        tile: Left and top of the tile.
        dx: Columns from the tile's left, float32 [N].
        dy: Rows from the tile's top, float32 [N].
        length: Number of pixels of the axis.
    """
    whole, fraction = _start(fixed, tile)
    first = (-whole).to(tl.float32)
    point = fraction + tl.load(slopes) * dx + tl.load(slopes + 1) * dy
    before, part, cover = _split(point, (first, (length - 1 - whole).to(tl.float32)))
    return before + whole, part, cover


@triton.jit
def _points(back, x, y, is_projective):
    """Return the points of the view, two float64 [N] for x and y, that pixels of the result show."""
    right, below = x.to(tl.float64) + 0.5, y.to(tl.float64) + 0.5
    u = tl.load(back) * right + (tl.load(back + 1) * below + tl.load(back + 2))
    v = tl.load(back + 3) * right + (tl.load(back + 4) * below + tl.load(back + 5))
    if is_projective:
        depth = tl.load(back + 6) * right + (tl.load(back + 7) * below + tl.load(back + 8))
        u, v = u / depth, v / depth
    return u, v


@triton.jit
def _through(before, frame, border, u, v):
    """Map points of the frame between two warps, float64, to the view.

    Returns:
        x and y in the view, float64, and the weight of the frame's pixels, float32.
    """
    height, width = frame[0].to(tl.float64), frame[1].to(tl.float64)
    is_known = (u == u) & (v == v)
    u, v = tl.where(is_known, u, -1.0), tl.where(is_known, v, -1.0)
    share_x = tl.minimum(tl.maximum(tl.minimum(u, width - u) + 0.5, 0.0), 1.0)
    share_y = tl.minimum(tl.maximum(tl.minimum(v, height - v) + 0.5, 0.0), 1.0)
    cover = tl.where((border == _CONSTANT) | (border == _TWICE), share_x * share_y, 1.0)
    u = tl.minimum(tl.maximum(u, 0.5), width - 0.5)
    v = tl.minimum(tl.maximum(v, 0.5), height - 0.5)
    x = tl.load(before) * u + (tl.load(before + 1) * v + tl.load(before + 2))
    y = tl.load(before + 3) * u + (tl.load(before + 4) * v + tl.load(before + 5))
    depth = tl.load(before + 6) * u + (tl.load(before + 7) * v + tl.load(before + 8))
    return x / depth, y / depth, tl.where(is_known, cover, 0.0).to(tl.float32)


@triton.jit
def _far(point, length, border):
    """Split any source coordinates, float64 [N], along one axis as ``_split`` does, with any border."""
    if (border == _REFLECT) | (border == _SYMMETRIC):
        point = _mirrored(point, length, border)
    point = tl.minimum(tl.maximum(point, -_FAR), _FAR)
    last = (length - 1).to(tl.float64)
    before = tl.minimum(tl.maximum(tl.floor(point), 0.0), tl.maximum(last - 1.0, 0.0))
    part = tl.minimum(tl.maximum(point, 0.0), last) - before
    cover = tl.minimum(tl.minimum(point, last - point) + 1.0, 1.0)
    return before.to(tl.int32), part.to(tl.float32), tl.maximum(cover, 0.0).to(tl.float32)


@triton.jit
def _mean_of_four(at, view, row, source):
    """Return the weighted mean of four neighbouring pixels, three float32 [N].

    Args:
        at: Column and row in the view of the upper left pixel, int32 [N], and the distances of the point from it.
        view: Top, left, height and width of the view.
        row: Distance from row to row of the source, in values.
        source: The source image; see ``sample``.
    """
    column, line, part_x, part_y = at
    top, left, height, width = view
    address, is_float, start = source
    offset = start + (top + line) * row + (left + column) * 3
    below = tl.where(height > 1, row, 0)
    per_step = tl.where(is_float, 1.0, _PER_STEP)
    lower = part_y * per_step
    upper = per_step - lower
    if width > 1:
        r, g, b = _pair(address, is_float, offset, upper - upper * part_x, upper * part_x)
        offset += below
        r2, g2, b2 = _pair(address, is_float, offset, lower - lower * part_x, lower * part_x)
        r, g, b = r + r2, g + g2, b + b2
    else:
        r, g, b = _pixel(address, is_float, offset, True)
        r2, g2, b2 = _pixel(address, is_float, offset + below, True)
        r, g, b = r * upper + r2 * lower, g * upper + g2 * lower, b * upper + b2 * lower
    return r, g, b


@triton.jit
def _filled(colour, fill, cover):
    """Return the colour blended with the fill: ``cover`` is the weight of the colour."""
    beside = 1.0 - cover
    return (
        colour[0] * cover + fill[0] * beside,
        colour[1] * cover + fill[1] * beside,
        colour[2] * cover + fill[2] * beside,
    )


@triton.jit
def _filled_twice(colour, fill, cover):
    """Return the colour blended with the fill twice, as for CONSTANT_TWICE: (colour * cover - fill) * cover + fill."""
    return (
        (colour[0] * cover - fill[0]) * cover + fill[0],
        (colour[1] * cover - fill[1]) * cover + fill[1],
        (colour[2] * cover - fill[2]) * cover + fill[2],
    )


@triton.jit
def _affine(border, view, row, fill, maps, source, tile, x, y):
    """Return what ``sample`` does for the kind NEAR; it needs no float64."""
    fixed, slopes = maps[2], maps[3]
    tile = (tile[0] // _ANCHOR * _ANCHOR, tile[1] // _ANCHOR * _ANCHOR)
    dx, dy = (x - tile[0]).to(tl.float32), (y - tile[1]).to(tl.float32)
    column, part_x, cover = _near(fixed, slopes, tile, dx, dy, view[3])
    line, part_y, cover_y = _near(fixed + 3, slopes + 2, tile, dx, dy, view[2])
    r, g, b = _mean_of_four((column, line, part_x, part_y), view, row, source)
    if border == _TWICE:
        r, g, b = _filled_twice((r, g, b), fill, cover * cover_y)
    elif border == _CONSTANT:
        r, g, b = _filled((r, g, b), fill, cover * cover_y)
    return r, g, b


@triton.jit
def _bilinear(border, is_projective, view, row, fill, maps, frame, source, x, y):
    """Return what ``sample`` does for the kind BILINEAR, with any map and border, in float64."""
    back, before = maps[0], maps[1]
    is_cut = frame[0] > 0
    seen = tl.full(x.shape, 1.0, tl.float32)
    u, v = _points(back, x, y, is_projective)
    if is_cut:
        u, v, seen = _through(before, frame, border, u, v)
    is_known = (u == u) & (v == v)
    column, part_x, cover = _far(tl.where(is_known, u, 0.0) - 0.5, view[3], border)
    line, part_y, cover_y = _far(tl.where(is_known, v, 0.0) - 0.5, view[2], border)
    ends = (border == _CONSTANT) | (border == _TWICE)
    cover = tl.where(is_known, tl.where(ends, cover * cover_y, 1.0), 0.0)
    r, g, b = _mean_of_four((column, line, part_x, part_y), view, row, source)
    if border == _TWICE:
        r, g, b = _filled_twice((r, g, b), fill, cover)
        if is_cut:
            r, g, b = _filled_twice((r, g, b), fill, seen)
    else:
        r, g, b = _filled((r, g, b), fill, cover * seen)
    return r, g, b


@triton.jit
def _fold(pixel, length, border):
    """Return the index, in a side of ``length`` pixels, of the pixel that the border shows at index ``pixel``."""
    if (border == _REFLECT) | (border == _SYMMETRIC):
        symmetric = (border == _SYMMETRIC).to(tl.int32)
        period = tl.maximum(2 * (length - 1 + symmetric), 1)
        folded = pixel % period
        folded = tl.where(folded < 0, folded + period, folded)
        pixel = tl.minimum(folded, period - folded - symmetric)
    return tl.minimum(tl.maximum(pixel, 0), length - 1)


@triton.jit
def _single(column, line, known, border, view, row, fill, source):
    """Return the pixels at integer positions of the view; positions that are not ``known`` get the fill."""
    top, left, height, width = view
    address, is_float, start = source
    if border == _CONSTANT:
        known = known & (column >= 0) & (column < width) & (line >= 0) & (line < height)
    column, line = _fold(column, width, border), _fold(line, height, border)
    offset = start + (top + line) * row + (left + column) * 3
    r, g, b = _pixel(address, is_float, offset, known)
    if not is_float:
        r, g, b = unit(r), unit(g), unit(b)
    return tl.where(known, r, fill[0]), tl.where(known, g, fill[1]), tl.where(known, b, fill[2])


@triton.jit
def _whole(border, view, row, fill, maps, source, tile, x, y):
    """Return what ``sample`` does for the kind WHOLE."""
    fixed, slopes = maps[2], maps[3]
    first_x, _ = _start(fixed, tile)
    first_y, _ = _start(fixed + 3, tile)
    dx, dy = x - tile[0], y - tile[1]
    column = first_x + tl.load(slopes).to(tl.int32) * dx + tl.load(slopes + 1).to(tl.int32) * dy
    line = first_y + tl.load(slopes + 2).to(tl.int32) * dx + tl.load(slopes + 3).to(tl.int32) * dy
    known = tl.full(x.shape, True, tl.int1)
    if border == _CONSTANT:
        known = (column >= 0) & (column < view[3]) & (line >= 0) & (line < view[2])
    return _single(column, line, known, _EDGE, view, row, fill, source)


@triton.jit
def _nearest(border, is_projective, view, row, fill, maps, source, x, y):
    """Return what ``sample`` does for the kind NEAREST."""
    u, v = _points(maps[0], x, y, is_projective)
    known = (u == u) & (v == v)
    u, v = tl.where(known, u, 0.0), tl.where(known, v, 0.0)
    column = tl.floor(tl.minimum(tl.maximum(u, -_FAR), _FAR)).to(tl.int32)
    line = tl.floor(tl.minimum(tl.maximum(v, -_FAR), _FAR)).to(tl.int32)
    return _single(column, line, known, border, view, row, fill, source)


@triton.jit
def sample(
    kind,
    border,
    is_projective,
    view,
    row,
    fill,
    maps,
    frame,
    source,
    tile,
    x,
    y,
    FEATURES: tl.constexpr,
):
    """Return the pixels of a tile, loaded from the source through the map; see ``program``, "1. Load".

    Args:
        kind: Interpolation: a value of Kind, or NEAR.
        border: Border of the view, a value of Border.
        is_projective: Whether the last row of a matrix is not (0, 0, 1).
        view: Top, left, height and width of the view.
        row: Distance from row to row of the source, in values.
        fill: Colour of a constant border, three float32.
        maps: Pointers to ``back`` and ``before``, float64, to AFFINE and to SLOPES.
        frame: Height and width of the frame between two warps; 0 if there is one warp.
        source: Address of the image, int64, a multiple of 4; whether it is float32; and at how many values after the
            address the image begins.
        tile: Left and top of the tile.
        x: Columns in the result, int32 [N].
        y: Rows in the result, int32 [N].
        FEATURES: Features that some image of the batch has; see ``record``.

    Returns:
        Red, green and blue in [0, 1], three float32 [N].
    """
    is_near = kind == _NEAR if _HAS_NEAR & FEATURES else False
    is_bilinear = kind == _BILINEAR if _HAS_EXACT & FEATURES else False
    is_nearest = kind == _NEAREST if _HAS_EXACT & FEATURES else False
    if is_near:
        r, g, b = _affine(border, view, row, fill, maps, source, tile, x, y)
    elif is_bilinear:
        r, g, b = _bilinear(border, is_projective, view, row, fill, maps, frame, source, x, y)
    elif is_nearest:
        r, g, b = _nearest(border, is_projective, view, row, fill, maps, source, x, y)
    else:
        r, g, b = _whole(border, view, row, fill, maps, source, tile, x, y)
    return r, g, b


@triton.jit
def load_at(source, row, x, y):
    """Return the pixels of an image at integer coordinates; arguments and result are those of ``sample``."""
    address, is_float, start = source
    r, g, b = _pixel(address, is_float, start + y * row + x * 3, True)
    if not is_float:
        r, g, b = unit(r), unit(g), unit(b)
    return r, g, b
