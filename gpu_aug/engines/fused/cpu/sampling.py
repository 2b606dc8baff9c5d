"""Compiled functions that compute a line of the result by sampling the source at mapped points; see ``program``, part 1."""

from typing import Any, NamedTuple

import numpy as np

from gpu_aug.compiled.jit import inlined, inner, load_i32
from gpu_aug.engines.fused.compile.program import Border, Kind
from gpu_aug.engines.fused.cpu.byte_tables import NUM_BYTES, map_bytes
from gpu_aug.engines.fused.cpu.lines import read_bytes, read_floats, unit
from gpu_aug.engines.fused.cpu.memory import Integer, Real, bytes_at, floats_at, ints_at
from gpu_aug.engines.fused.cpu.points import (
    Between,
    find,
    find_between,
    hide,
    product,
    stays_inside,
)

# Plain integers for the compiled functions.
WHOLE, NEAREST, BILINEAR = (int(kind) for kind in Kind)
CONSTANT, EDGE, REFLECT, SYMMETRIC, CONSTANT_TWICE = (int(border) for border in Border)

_MASK = np.uint32(255)  # a byte of four
# float32, as a plain number would make the results float64.
_ZERO, _ONE = np.float32(0), np.float32(1)
_PER_BYTE = np.float32(1 / 255)


class View(NamedTuple):
    """The part of a source image that is seen, and the border around it.

    Attributes:
        address: Address of the view's first pixel.
        is_float: 1 if the source is float32, 0 if it is uint8.
        stride: Bytes from row to row.
        height: Height of the view, in pixels.
        width: Width of the view, in pixels.
        border: Kind of border, a value of ``program.Border``.
        red: Red of the fill, float32.
        green: Green of the fill, float32.
        blue: Blue of the fill, float32.
    """

    address: Integer
    is_float: Integer
    stride: Integer
    height: Integer
    width: Integer
    border: Integer
    red: Real
    green: Real
    blue: Real


@inner
def load_whole(view: View, back: Any, y: Integer, line: Integer, width: Integer) -> None:
    """Compute line ``y`` of the result by a map that moves whole pixels (kind WHOLE).

    Args:
        view: The part of the source that is read.
        back: Matrix from the result to the view, nine float64.
        y: Index of the line in the result.
        line: Address of the line that is written, float32 [3, width].
        width: Width of the result, in pixels.
    """
    none = np.int64(0)  # a plain 0 would be compiled in
    x0 = np.int64(np.floor(back[0] * 0.5 + (back[1] * (y + 0.5) + back[2])))
    y0 = np.int64(np.floor(back[3] * 0.5 + (back[4] * (y + 0.5) + back[5])))
    if back[1] == 0.0:
        _load_line(view, x0, np.int64(back[0]), y0, line, width)
    else:
        _load_pixels(view, x0, none, y0, np.int64(back[3]), none, width, line, width)


@inner
def look_up(
    view: View,
    back: Any,
    y: Integer,
    tables: Integer,
    address: Integer,
    across: Integer,
    along: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Write line ``y`` of a uint8 result whose bytes tables give, by a map that crops and flips.

    Args:
        view: The part of the source that is read, uint8; it holds all pixels of the line.
        back: Matrix from the result to the view, nine float64.
        y: Index of the line in the result.
        tables: Address of the results for each byte of the source, uint8 [3, NUM_BYTES].
        address: Address of the line's first byte in the result.
        across: Stride of channels in the result, in bytes.
        along: Stride of pixels in the result, in bytes.
        width: Width of the result, in pixels.
        spare: Address of 3 * width bytes of scratch memory.
    """
    source, is_backwards = _first_pixel(view, back, y, width)
    if along == 3 and across == 1 and not is_backwards:
        map_bytes(source, address, width, tables)
        return
    map_bytes(source, spare, width, tables)
    levels = bytes_at(spare, 3 * width)
    start, step = (width - 1, -1) if is_backwards else (0, 1)
    for channel in range(3):
        out = bytes_at(address + channel * across, width * along)
        for x in range(width):
            out[np.uint64((start + step * x) * along)] = levels[3 * x + channel]


@inner
def load_mapped(
    view: View, back: Any, y: Integer, tables: Integer, line: Integer, width: Integer
) -> None:
    """Compute line ``y`` of the result, float32 [3, width] at ``line``, from bytes that tables map.

    ``tables`` is the address of float32 [3, NUM_BYTES]; see ``look_up`` for the other arguments.
    """
    source, is_backwards = _first_pixel(view, back, y, width)
    pixels, levels = bytes_at(source, 3 * width), floats_at(tables, 3 * NUM_BYTES)
    values = floats_at(line, 3 * width)
    start, step = (width - 1, -1) if is_backwards else (0, 1)
    for channel in range(3):
        for x in range(width):
            place = np.uint64(channel * width + start + step * x)
            values[place] = levels[channel * NUM_BYTES + pixels[3 * x + channel]]


@inlined
def _first_pixel(view: View, back: Any, y: Integer, width: Integer) -> Any:
    """Return the address of the leftmost pixel of the view that line ``y`` shows, and whether the line is mirrored."""
    first = np.int64(np.floor(back[0] * 0.5 + back[2]))
    row = np.int64(np.floor(back[4] * (y + 0.5) + back[5]))
    is_backwards = back[0] < 0
    leftmost = first - width + 1 if is_backwards else first
    return view.address + row * view.stride + 3 * leftmost, is_backwards


@inner
def load_sampled(
    view: View,
    is_nearest: bool,
    back: Any,
    y: Integer,
    line: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Compute line ``y`` of the result by bilinear interpolation, or from nearest pixels if ``is_nearest``.

    ``spare`` is the address of 36 * width bytes of scratch memory; see ``load_whole`` for the other arguments.
    """
    find(back, y, 0.0 if is_nearest else 0.5, spare, width)
    _sample(view, is_nearest, line, width, spare)


@inner
def load_between(
    view: View,
    back: Any,
    between: Between,
    y: Integer,
    line: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Compute line ``y`` of the result of two bilinear warps that are sampled as one.

    ``back`` leads from the result to the frame between the warps; see ``load_sampled`` for the other arguments.
    """
    if stays_inside(between, back, y, width):
        load_sampled(view, False, product(between.before, back), y, line, width, spare)
        return
    find_between(between, back, y, spare, width)
    _sample(view, False, line, width, spare)
    fill = (view.red, view.green, view.blue)
    hide(line, width, spare, fill, view.border == CONSTANT_TWICE)


@inner
def _sample(view: View, is_nearest: bool, line: Integer, width: Integer, spare: Integer) -> None:
    """Sample the view at the points of a line that ``find`` or ``find_between`` wrote to scratch memory."""
    none = np.int64(0)
    start, stop = _inner(view, is_nearest, width, spare)
    first, count, target = spare + 4 * start, stop - start, line + 4 * start
    if view.is_float:
        if is_nearest:
            start = stop = none
        else:
            _blend_floats(view.address, view.stride, count, target, width, first)
    elif is_nearest:
        _take(view.address, view.stride, count, target, width, first)
    else:
        _gather(view.address, view.stride, count, width, first)
        _blend(count, target, width, first)
    _load_slowly(view, is_nearest, none, start, line, width, spare)
    _load_slowly(view, is_nearest, stop, width, line, width, spare)


@inner
def _load_line(
    view: View, first: Integer, step: Integer, y: Integer, line: Integer, width: Integer
) -> None:
    """Copy one line of the view, from column ``first`` on, forwards (``step`` 1) or backwards (``step`` -1)."""
    none = np.int64(0)
    y, start, stop = columns_inside(view, first, step, y, width)
    if stop > start:
        leftmost = first + start if step > 0 else first - stop + 1
        count, target = stop - start, line + 4 * start
        if view.is_float:
            address = view.address + y * view.stride + 12 * leftmost
            read_floats(address, count, target, width, step < 0)
        else:
            address = view.address + y * view.stride + 3 * leftmost
            read_bytes(address, count, target, width, step < 0)
    if start > 0:
        _load_pixels(view, first, step, y, none, none, start, line, width)
    if stop < width:
        _load_pixels(view, first, step, y, none, stop, width, line, width)


@inner
def columns_inside(view: View, first: Integer, step: Integer, y: Integer, width: Integer) -> Any:
    """Return which columns of a line of the result show the view, for a map that moves whole pixels along lines.

    Args:
        view: The part of the source that is read.
        first: Column of the view at column 0 of the result.
        step: 1, or -1 if the line is read backwards.
        y: Row of the view; may lie outside it.
        width: Width of the result, in pixels.

    Returns:
        The row that is read, the first of these columns, and the column after the last; both are ``width`` if a constant
        border takes the place of the row.
    """
    if not 0 <= y < view.height and is_constant(view):
        return y, width, width
    y = fold_index(y, view.height, view.border)
    start = -first if step > 0 else first - view.width + 1
    stop = view.width - first if step > 0 else first + 1
    start = min(max(start, 0), width)
    return y, start, min(max(stop, start), width)


@inner
def _load_pixels(
    view: View,
    x: Integer,
    dx: Integer,
    y: Integer,
    dy: Integer,
    start: Integer,
    stop: Integer,
    line: Integer,
    width: Integer,
) -> None:
    """Copy the view's pixels (y + dy * n, x + dx * n) for n from ``start`` to ``stop`` (exclusive)."""
    for pixel in range(start, stop):
        _load_pixel(view, x + dx * pixel, y + dy * pixel, pixel, line, width)


@inner
def _load_pixel(
    view: View, x: Integer, y: Integer, pixel: Integer, line: Integer, width: Integer
) -> None:
    values = floats_at(line, 3 * width)
    if not (0 <= y < view.height and 0 <= x < view.width):
        if is_constant(view):
            values[pixel], values[pixel + width] = view.red, view.green
            values[pixel + 2 * width] = view.blue
            return
        x, y = fold_index(x, view.width, view.border), fold_index(y, view.height, view.border)
    red, green, blue = _pixel(view, x, y)
    values[pixel], values[pixel + width], values[pixel + 2 * width] = red, green, blue


@inner
def _pixel(view: View, x: Integer, y: Integer) -> Any:
    """Return red, green and blue of a pixel of the view, scaled to [0, 1] if the source is uint8."""
    if view.is_float:
        values = floats_at(view.address + y * view.stride + 12 * x, 3)
        return values[0], values[1], values[2]
    levels = bytes_at(view.address + y * view.stride + 3 * x, 3)
    return unit(np.float32(levels[0])), unit(np.float32(levels[1])), unit(np.float32(levels[2]))


@inner
def is_constant(view: View) -> Any:
    """Return whether pixels outside the view have the fill; an empty view has no pixels that another border could repeat."""
    is_filled = view.border == CONSTANT or view.border == CONSTANT_TWICE
    return is_filled or view.height * view.width == 0


@inner
def fold_index(pixel: Integer, length: Integer, border: Integer) -> Integer:
    """Return the index, in a line of ``length`` pixels, of the pixel that the border shows at index ``pixel``."""
    if 0 <= pixel < length:
        return pixel
    if border == REFLECT:
        period = max(2 * (length - 1), 1)
        pixel %= period
        return min(pixel, period - pixel) if length > 1 else 0
    if border == SYMMETRIC:
        pixel %= 2 * length
        return min(pixel, 2 * length - 1 - pixel)
    return min(max(pixel, 0), length - 1)


@inner
def _inner(view: View, is_nearest: bool, width: Integer, spare: Integer) -> Any:
    """Return the range of columns whose taps all lie inside the view, with one more readable byte after each pixel.

    These can be sampled by the fast loops. The range is empty if such columns are not contiguous.
    """
    columns, lines = ints_at(spare, width), ints_at(spare + 4 * width, width)
    margin = 0 if is_nearest else 1
    last_column = np.uint32(max(view.width - 1 - margin, 0))
    last_line = np.uint32(max(view.height - margin, 0))
    num = np.int32(0)
    for x in range(width):
        num += (np.uint32(columns[x]) < last_column) & (np.uint32(lines[x]) < last_line)
    start = stop = np.int64(0)
    if num:
        while np.uint32(columns[start]) >= last_column or np.uint32(lines[start]) >= last_line:
            start += 1
        stop = width
        while (
            np.uint32(columns[stop - 1]) >= last_column or np.uint32(lines[stop - 1]) >= last_line
        ):
            stop -= 1
        if stop - start != num:  # a horizon lies between
            stop = start
    return start, stop


@inner
def _take(
    address: Integer, stride: Integer, count: Integer, line: Integer, width: Integer, spare: Integer
) -> None:
    """Read the nearest pixel of each point to a line.

    Each is read as four bytes, of which the last belongs to the next pixel.
    """
    columns, lines = ints_at(spare, count), ints_at(spare + 4 * width, count)
    taps = ints_at(spare + 16 * width, count)
    for x in range(count):
        taps[x] = load_i32(address + np.int64(lines[x]) * stride + np.int64(columns[x]) * 3)
    for channel in range(3):
        values = floats_at(line + 4 * channel * width, count)
        shift = np.uint32(8 * channel)
        for x in range(count):
            values[x] = unit(np.float32(np.int32((np.uint32(taps[x]) >> shift) & _MASK)))


@inner
def _gather(
    address: Integer, stride: Integer, count: Integer, width: Integer, spare: Integer
) -> None:
    """Read the four neighbours of each point to scratch memory.

    Each is read as four bytes, of which the last belongs to the next pixel.
    """
    columns, lines = ints_at(spare, count), ints_at(spare + 4 * width, count)
    a, b = ints_at(spare + 16 * width, count), ints_at(spare + 20 * width, count)
    c, d = ints_at(spare + 24 * width, count), ints_at(spare + 28 * width, count)
    for x in range(count):
        at = address + np.int64(lines[x]) * stride + np.int64(columns[x]) * 3
        a[x] = load_i32(at)
        b[x] = load_i32(at + 3)
        c[x] = load_i32(at + stride)
        d[x] = load_i32(at + stride + 3)


@inner
def _blend(count: Integer, line: Integer, width: Integer, spare: Integer) -> None:
    """Write the weighted sum of the four neighbours that ``_gather`` read to a line."""
    right, below = floats_at(spare + 8 * width, count), floats_at(spare + 12 * width, count)
    a, b = ints_at(spare + 16 * width, count), ints_at(spare + 20 * width, count)
    c, d = ints_at(spare + 24 * width, count), ints_at(spare + 28 * width, count)
    for channel in range(3):
        values = floats_at(line + 4 * channel * width, count)
        shift = np.uint32(8 * channel)
        for x in range(count):
            p = np.float32(np.int32((np.uint32(a[x]) >> shift) & _MASK))
            q = np.float32(np.int32((np.uint32(b[x]) >> shift) & _MASK))
            r = np.float32(np.int32((np.uint32(c[x]) >> shift) & _MASK))
            s = np.float32(np.int32((np.uint32(d[x]) >> shift) & _MASK))
            upper, lower = p + right[x] * (q - p), r + right[x] * (s - r)
            values[x] = (upper + below[x] * (lower - upper)) * _PER_BYTE


@inner
def _blend_floats(
    address: Integer, stride: Integer, count: Integer, line: Integer, width: Integer, spare: Integer
) -> None:
    """Write the weighted sum of the four neighbours of each point to a line, for a float32 source."""
    columns, lines = ints_at(spare, count), ints_at(spare + 4 * width, count)
    right, below = floats_at(spare + 8 * width, count), floats_at(spare + 12 * width, count)
    red, green, blue = (
        floats_at(line, count),
        floats_at(line + 4 * width, count),
        floats_at(line + 8 * width, count),
    )
    for x in range(count):
        at = address + np.int64(lines[x]) * stride + np.int64(columns[x]) * 12
        upper, lower = floats_at(at, 6), floats_at(at + stride, 6)
        part, more = right[x], below[x]
        p = upper[0] + part * (upper[3] - upper[0])
        red[x] = p + more * (lower[0] + part * (lower[3] - lower[0]) - p)
        p = upper[1] + part * (upper[4] - upper[1])
        green[x] = p + more * (lower[1] + part * (lower[4] - lower[1]) - p)
        p = upper[2] + part * (upper[5] - upper[2])
        blue[x] = p + more * (lower[2] + part * (lower[5] - lower[2]) - p)


@inner
def _load_slowly(
    view: View,
    is_nearest: bool,
    start: Integer,
    stop: Integer,
    line: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Sample columns ``start`` to ``stop`` (exclusive), whose taps may lie outside the view."""
    columns, lines = ints_at(spare, width), ints_at(spare + 4 * width, width)
    values = floats_at(line, 3 * width)
    constant = is_constant(view)
    for pixel in range(start, stop):
        x, y = np.int64(columns[pixel]), np.int64(lines[pixel])
        if constant and not (-1 <= y < view.height and -1 <= x < view.width):
            values[pixel], values[pixel + width] = view.red, view.green
            values[pixel + 2 * width] = view.blue
        elif is_nearest:
            _load_pixel(view, x, y, pixel, line, width)
        else:
            _blend_pixel(view, x, y, constant, pixel, line, width, spare)


@inner
def _blend_pixel(
    view: View,
    x: Integer,
    y: Integer,
    constant: bool,
    pixel: Integer,
    line: Integer,
    width: Integer,
    spare: Integer,
) -> None:
    """Write the weighted sum of the four neighbours of one point, some of which may lie outside the view."""
    values = floats_at(line, 3 * width)
    right = floats_at(spare + 8 * width, width)[pixel]
    below = floats_at(spare + 12 * width, width)[pixel]
    covered = red = green = blue = _ZERO
    for down in range(2):
        for across in range(2):
            weight = (below if down else _ONE - below) * (right if across else _ONE - right)
            tap_x, tap_y = x + across, y + down
            if not (0 <= tap_y < view.height and 0 <= tap_x < view.width):
                if constant:
                    continue
                tap_x = fold_index(tap_x, view.width, view.border)
                tap_y = fold_index(tap_y, view.height, view.border)
            r, g, b = _pixel(view, tap_x, tap_y)
            covered += weight
            red += weight * r
            green += weight * g
            blue += weight * b
    if constant:
        missing = _ONE - covered
        again = covered if view.border == CONSTANT_TWICE else _ONE
        red = red * again + missing * view.red
        green = green * again + missing * view.green
        blue = blue * again + missing * view.blue
    values[pixel], values[pixel + width], values[pixel + 2 * width] = red, green, blue
