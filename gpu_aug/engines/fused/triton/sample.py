"""Triton functions that load the pixels of a tile from a source image; see ``program``, "1. Load".

A tile is a block of pixels [N] of the result. A bilinear value beside the view is made of a point inside: for EDGE of
the nearest point, for mirrored borders of the mirrored one, and for CONSTANT of the nearest point weighted
by ``cover``, the weight of the pixels that exist; so two neighbouring pixels are read in any case. A uint8
image is read as 4-byte words: two words, seldom three, hold two neighbouring pixels of six bytes.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

from gpu_aug.engines.fused.compile.program import Border, Kind

_WHOLE = tl.constexpr(int(Kind.WHOLE))
_BILINEAR = tl.constexpr(int(Kind.BILINEAR))
_CONSTANT = tl.constexpr(int(Border.CONSTANT))
_REFLECT = tl.constexpr(int(Border.REFLECT))
_SYMMETRIC = tl.constexpr(int(Border.SYMMETRIC))
_TWICE = tl.constexpr(int(Border.CONSTANT_TWICE))

_FAR = tl.constexpr(float(2**22))
"""A point beyond this distance counts as one at it: pixels are counted in float32."""

_PER_STEP = tl.constexpr(1 / 255)


@triton.jit
def unit(value):
    """Divide by 255; where ``value`` is a whole number up to 255 the result is rounded only once."""
    quotient = value * _PER_STEP
    return tl.fma(tl.fma(quotient, -255.0, value), _PER_STEP, quotient)


@triton.jit
def _shifted(high, low, shift):
    """The lower word of two, shifted to the right."""
    both = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    return (both >> shift.to(tl.uint64)).to(tl.uint32)


@triton.jit
def _byte(number, byte: tl.constexpr):
    return ((number >> (8 * byte)) & 255).to(tl.float32)


@triton.jit
def _pixel(address, is_float, offset, inside):
    """The pixel at an offset: float32 as it is, uint8 as 0 to 255."""
    if is_float:
        floats = address.to(tl.pointer_type(tl.float32)) + offset
        r = tl.load(floats, mask=inside, other=0.0)
        g = tl.load(floats + 1, mask=inside, other=0.0)
        b = tl.load(floats + 2, mask=inside, other=0.0)
    else:
        words = address.to(tl.pointer_type(tl.uint32)) + (offset >> 2)
        low = tl.load(words, mask=inside, other=0)
        high = tl.load(words + 1, mask=inside & ((offset & 3) >= 2), other=0)
        number = _shifted(high, low, (offset & 3) * 8)
        r, g, b = _byte(number, 0), _byte(number, 1), _byte(number, 2)
    return r, g, b


@triton.jit
def _pair(address, is_float, offset, left, right, inside):
    """The weighted sum of the pixel at an offset and its right neighbour."""
    if is_float:
        floats = address.to(tl.pointer_type(tl.float32)) + offset
        r = tl.load(floats, mask=inside, other=0.0) * left
        g = tl.load(floats + 1, mask=inside, other=0.0) * left
        b = tl.load(floats + 2, mask=inside, other=0.0) * left
        r += tl.load(floats + 3, mask=inside, other=0.0) * right
        g += tl.load(floats + 4, mask=inside, other=0.0) * right
        b += tl.load(floats + 5, mask=inside, other=0.0) * right
    else:
        words = address.to(tl.pointer_type(tl.uint32)) + (offset >> 2)
        shift = (offset & 3) * 8
        low = tl.load(words, mask=inside, other=0)
        high = tl.load(words + 1, mask=inside, other=0)
        third = tl.load(words + 2, mask=inside & ((offset & 3) == 3), other=0)
        first, second = _shifted(high, low, shift), _shifted(third, high, shift)
        r = _byte(first, 0) * left + _byte(first, 3) * right
        g = _byte(first, 1) * left + _byte(second, 0) * right
        b = _byte(first, 2) * left + _byte(second, 1) * right
    return r, g, b


@triton.jit
def _mirrored(point, length, border):
    """A point beside the pixel centres 0 to ``length - 1``, float64, mirrored to a point among them."""
    first, period = 0.0, 2.0 * (length - 1).to(tl.float64)
    if border == _SYMMETRIC:
        first, period = 0.5, 2.0 * length.to(tl.float64)
    period = tl.maximum(period, 1.0)
    point = point + first
    point = point - period * tl.floor(point / period)
    return tl.minimum(point, period - point) - first


@triton.jit
def _split(point, length):
    """The pixel before a point, int32, the point's distance from it, and the weight of pixels that exist.

    Args:
        point: float32, in pixels from any pixel.
        length: First and last pixel as float32, counted from the same one.
    """
    first, last = length
    within = tl.minimum(tl.maximum(point, first), last)
    before = tl.maximum(tl.minimum(tl.floor(within), last - 1.0), first)
    cover = tl.minimum(tl.minimum(point - first, last - point) + 1.0, 1.0)
    return before.to(tl.int32), within - before, tl.maximum(cover, 0.0)


@triton.jit
def _near(start, along, down, dx, dy, length):
    """``_split`` of ``start + along * dx + down * dy``, and whether no corner lies beside the pixels.

    Only ``start`` has many digits, so it alone is taken apart in float64.

    Args:
        start: float64, a number.
        along: float64, a number.
        down: float64, a number.
        dx: float32 [N].
        dy: float32 [N].
        length: Number of pixels.
    """
    whole = tl.floor(tl.minimum(tl.maximum(start, -_FAR), _FAR))
    fraction = tl.minimum(tl.maximum(start - whole, 0.0), 1.0).to(tl.float32)
    first = -whole.to(tl.float32)
    point = fraction + along.to(tl.float32) * dx + down.to(tl.float32) * dy
    before, part, cover = _split(point, (first, first + (length - 1).to(tl.float32)))
    return before + whole.to(tl.int32), part, cover


@triton.jit
def _points(back, x, y, is_projective):
    """The points of the view that pixels of the result show, float64, twice."""
    right, below = x.to(tl.float64) + 0.5, y.to(tl.float64) + 0.5
    u = tl.load(back) * right + (tl.load(back + 1) * below + tl.load(back + 2))
    v = tl.load(back + 3) * right + (tl.load(back + 4) * below + tl.load(back + 5))
    if is_projective:
        depth = tl.load(back + 6) * right + (tl.load(back + 7) * below + tl.load(back + 8))
        u, v = u / depth, v / depth
    return u, v


@triton.jit
def _through(before, frame, border, u, v):
    """Lead points of the frame between, float64, on to the view; and the weight of its pixels, float32."""
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
    """``_split`` of any point, float64 [N]."""
    if (border == _REFLECT) | (border == _SYMMETRIC):
        point = _mirrored(point, length, border)
    point = tl.minimum(tl.maximum(point, -_FAR), _FAR)
    last = (length - 1).to(tl.float64)
    before = tl.minimum(tl.maximum(tl.floor(point), 0.0), tl.maximum(last - 1.0, 0.0))
    part = tl.minimum(tl.maximum(point, 0.0), last) - before
    cover = tl.minimum(tl.minimum(point, last - point) + 1.0, 1.0)
    return before.to(tl.int32), part.to(tl.float32), tl.maximum(cover, 0.0).to(tl.float32)


@triton.jit
def _bilinear(border, is_projective, view, row, fill, maps, frame, source, tile, x, y, inside):
    """``sample`` where the kind is BILINEAR."""
    back, before = maps
    is_cut = frame[0] > 0
    seen = tl.full(x.shape, 1.0, tl.float32)
    top, left, height, width = view
    address, is_float, start = source
    red, green, blue = fill
    ends = (border == _CONSTANT) | (border == _TWICE)
    if is_projective | is_cut | (border == _REFLECT) | (border == _SYMMETRIC):
        u, v = _points(back, x, y, is_projective)
        if is_cut:
            u, v, seen = _through(before, frame, border, u, v)
        is_known = (u == u) & (v == v)
        column, part_x, cover = _far(tl.where(is_known, u, 0.0) - 0.5, width, border)
        line, part_y, cover_y = _far(tl.where(is_known, v, 0.0) - 0.5, height, border)
        cover = tl.where(is_known, tl.where(ends, cover * cover_y, 1.0), 0.0)
    else:
        first_u, first_v = _points(back, tile[0], tile[1], is_projective)
        dx, dy = (x - tile[0]).to(tl.float32), (y - tile[1]).to(tl.float32)
        column, part_x, cover = _near(
            first_u - 0.5, tl.load(back), tl.load(back + 1), dx, dy, width
        )
        line, part_y, cover_y = _near(
            first_v - 0.5, tl.load(back + 3), tl.load(back + 4), dx, dy, height
        )
        cover = cover * cover_y
    offset = start + (top + line) * row + (left + column) * 3
    below = tl.where(height > 1, row, 0)
    per_step = tl.where(is_float, 1.0, _PER_STEP)
    lower = part_y * per_step
    upper = per_step - lower
    if width > 1:
        r, g, b = _pair(address, is_float, offset, upper - upper * part_x, upper * part_x, inside)
        r2, g2, b2 = _pair(
            address, is_float, offset + below, lower - lower * part_x, lower * part_x, inside
        )
        r, g, b = r + r2, g + g2, b + b2
    else:
        r, g, b = _pixel(address, is_float, offset, inside)
        r2, g2, b2 = _pixel(address, is_float, offset + below, inside)
        r, g, b = r * upper + r2 * lower, g * upper + g2 * lower, b * upper + b2 * lower
    if border == _TWICE:
        r, g, b = r * cover - red, g * cover - green, b * cover - blue
        r, g, b = r * cover + red, g * cover + green, b * cover + blue
        if is_cut:
            r, g, b = r * seen - red, g * seen - green, b * seen - blue
            r, g, b = r * seen + red, g * seen + green, b * seen + blue
    elif ends | is_projective | is_cut:
        cover = cover * seen
        beside = 1.0 - cover
        r, g, b = r * cover + red * beside, g * cover + green * beside, b * cover + blue * beside
    return r, g, b


@triton.jit
def _fold(pixel, length, border):
    """The pixel of a side of ``length`` that is seen at a number that may lie beside it."""
    if (border == _REFLECT) | (border == _SYMMETRIC):
        symmetric = (border == _SYMMETRIC).to(tl.int32)
        period = tl.maximum(2 * (length - 1 + symmetric), 1)
        folded = pixel % period
        folded = tl.where(folded < 0, folded + period, folded)
        pixel = tl.minimum(folded, period - folded - symmetric)
    return tl.minimum(tl.maximum(pixel, 0), length - 1)


@triton.jit
def _single(kind, border, is_projective, view, row, fill, back, source, x, y, inside):
    """``sample`` where the kind is WHOLE or NEAREST."""
    top, left, height, width = view
    address, is_float, start = source
    red, green, blue = fill
    is_known = inside
    if kind == _WHOLE:
        right_x, below_x = tl.load(back), tl.load(back + 1)
        right_y, below_y = tl.load(back + 3), tl.load(back + 4)
        first_x = tl.floor((right_x + below_x) * 0.5 + tl.load(back + 2)).to(tl.int32)
        first_y = tl.floor((right_y + below_y) * 0.5 + tl.load(back + 5)).to(tl.int32)
        column = first_x + right_x.to(tl.int32) * x + below_x.to(tl.int32) * y
        line = first_y + right_y.to(tl.int32) * x + below_y.to(tl.int32) * y
    else:
        u, v = _points(back, x, y, is_projective)
        is_known = inside & (u == u) & (v == v)
        column = tl.floor(tl.minimum(tl.maximum(tl.where(is_known, u, 0.0), -_FAR), _FAR)).to(
            tl.int32
        )
        line = tl.floor(tl.minimum(tl.maximum(tl.where(is_known, v, 0.0), -_FAR), _FAR)).to(
            tl.int32
        )
    if border == _CONSTANT:
        is_known = is_known & (column >= 0) & (column < width) & (line >= 0) & (line < height)
    column, line = _fold(column, width, border), _fold(line, height, border)
    offset = start + (top + line) * row + (left + column) * 3
    r, g, b = _pixel(address, is_float, offset, is_known)
    if not is_float:
        r, g, b = unit(r), unit(g), unit(b)
    return tl.where(is_known, r, red), tl.where(is_known, g, green), tl.where(is_known, b, blue)


@triton.jit
def sample(kind, border, is_projective, view, row, fill, maps, frame, source, tile, x, y, inside):
    """Carry out "1. Load" for a tile.

    Args:
        kind: See Kind.
        border: See Border.
        is_projective: Whether the last row of a matrix is not (0, 0, 1).
        view: Top, left, height and width.
        row: Channels from a row of the source to the next one.
        fill: Three float32.
        maps: Where ``back`` lies, float64, and where ``before`` lies.
        frame: Height and width of the frame between; 0 where there is none.
        source: The address, int64, a multiple of 4; whether it is float32; and by how many
            channels the image begins behind the address.
        tile: Left and top of the tile.
        x: int32 [N].
        y: int32 [N].
        inside: bool [N], whether the pixel belongs to the result.

    Returns:
        Three float32 [N] in [0, 1].
    """
    if kind == _BILINEAR:
        r, g, b = _bilinear(
            border, is_projective, view, row, fill, maps, frame, source, tile, x, y, inside
        )
    else:
        r, g, b = _single(
            kind, border, is_projective, view, row, fill, maps[0], source, x, y, inside
        )
    return r, g, b


@triton.jit
def load_at(source, row, x, y, inside):
    """The pixels of an image at whole coordinates; arguments and result as for ``sample``."""
    address, is_float, start = source
    r, g, b = _pixel(address, is_float, start + y * row + x * 3, inside)
    if not is_float:
        r, g, b = unit(r), unit(g), unit(b)
    return r, g, b
