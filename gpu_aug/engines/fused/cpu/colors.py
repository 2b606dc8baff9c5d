"""Compiled functions that apply one stage to a line of pixels in place; see ``program.Stage``.

``line`` is the address of a line of W pixels, float32 [3, W]; ``width`` is W; ``v`` is the address of the stage's arguments.
"""

import numpy as np

from gpu_aug.compiled.jit import inner
from gpu_aug.engines.fused.cpu.memory import Integer, Real, floats_at

# float32, as a plain number would make the sums float64.
_ZERO, _ONE, _TWO, _THREE, _FOUR, _SIX = (np.float32(number) for number in (0, 1, 2, 3, 4, 6))
_LARGEST = np.float32(255)
_SIXTH = np.float32(1 / 6)
# The gray that CONTRAST takes the mean of; see `Stage.CONTRAST`.
_RED, _GREEN, _BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)


@inner
def scale(line: Integer, width: Integer, v: Integer) -> None:
    """Apply the stage SCALE to a line."""
    arguments = floats_at(v, 18)
    for channel in range(3):
        values = floats_at(line + 4 * width * channel, width)
        factor, summand = arguments[5 * channel], arguments[4 * channel + 3]
        low, high = arguments[12 + channel], arguments[15 + channel]
        for x in range(width):
            values[x] = min(max(values[x] * factor + summand, low), high)


@inner
def matrix(line: Integer, width: Integer, v: Integer) -> None:
    """Apply the stage MATRIX to a line."""
    red, green, blue = (
        floats_at(line, width),
        floats_at(line + 4 * width, width),
        floats_at(line + 8 * width, width),
    )
    m = floats_at(v, 18)
    rr, rg, rb, r0 = m[0], m[1], m[2], m[3]
    gr, gg, gb, g0 = m[4], m[5], m[6], m[7]
    br, bg, bb, b0 = m[8], m[9], m[10], m[11]
    low_r, low_g, low_b = m[12], m[13], m[14]
    high_r, high_g, high_b = m[15], m[16], m[17]
    is_gray = low_r == low_g == low_b and high_r == high_g == high_b
    for index in range(8):
        is_gray = is_gray and m[index] == m[index + 4]
    if is_gray:  # computed once
        for x in range(width):
            value = r0 + rr * red[x] + rg * green[x] + rb * blue[x]
            red[x] = green[x] = blue[x] = min(max(value, low_r), high_r)
        return
    for x in range(width):
        r, g, b = red[x], green[x], blue[x]
        red[x] = min(max(r0 + rr * r + rg * g + rb * b, low_r), high_r)
        green[x] = min(max(g0 + gr * r + gg * g + gb * b, low_g), high_g)
        blue[x] = min(max(b0 + br * r + bg * g + bb * b, low_b), high_b)


@inner
def hue(line: Integer, width: Integer, v: Integer) -> None:
    """Apply the stage HUE to a line."""
    red, green, blue = (
        floats_at(line, width),
        floats_at(line + 4 * width, width),
        floats_at(line + 8 * width, width),
    )
    shift = _SIX * floats_at(v, 1)[0]
    for x in range(width):
        r, g, b = red[x], green[x], blue[x]
        high, low = max(max(r, g), b), min(min(r, g), b)
        chroma = high - low
        is_red, is_green = r == high, g == high
        across = g - b if is_red else (b - r if is_green else r - g)
        first = _ZERO if is_red else (_TWO if is_green else _FOUR)
        h = across / (_ONE if chroma == _ZERO else chroma) + first + shift
        h -= _SIX * np.floor(h * _SIXTH)
        red[x] = low + chroma * min(max(abs(h - _THREE) - _ONE, _ZERO), _ONE)
        green[x] = low + chroma * min(max(_TWO - abs(h - _TWO), _ZERO), _ONE)
        blue[x] = low + chroma * min(max(_TWO - abs(h - _FOUR), _ZERO), _ONE)


@inner
def gamma(line: Integer, width: Integer, v: Integer) -> None:
    """Apply the stage GAMMA to a line."""
    values, power = floats_at(line, 3 * width), floats_at(v, 1)[0]
    for x in range(3 * width):
        values[x] = max(values[x], _ZERO) ** power


@inner
def solarize(line: Integer, width: Integer, v: Integer) -> None:
    """Apply the stage SOLARIZE to a line."""
    values, threshold = floats_at(line, 3 * width), floats_at(v, 1)[0]
    for x in range(3 * width):
        value = values[x]
        values[x] = _ONE - value if value >= threshold else value


@inner
def table(line: Integer, width: Integer, tables: Integer) -> None:
    """Apply the stage TABLE to a line; ``tables`` is the address of float32 [3, 256]."""
    for channel in range(3):
        values = floats_at(line + 4 * width * channel, width)
        found = floats_at(tables + 1024 * channel, 256)
        for x in range(width):
            whole = min(max(np.rint(values[x] * _LARGEST), _ZERO), _LARGEST)
            values[x] = found[np.uint64(np.int32(whole))]


@inner
def whole(line: Integer, width: Integer, to_nearest: bool, v: Integer) -> None:
    """Apply the stage ROUND to a line if ``to_nearest``, else the stage FLOOR."""
    values, summand = floats_at(line, 3 * width), floats_at(v, 1)[0]
    for x in range(3 * width):
        level = values[x] * _LARGEST
        level = np.rint(level) if to_nearest else np.floor(level + summand)
        values[x] = min(max(level, _ZERO), _LARGEST) / _LARGEST


@inner
def gray(line: Integer, width: Integer, middle: bool) -> None:
    """Apply the stage GRAY_MIDDLE to a line if ``middle``, else the stage GRAY_MAX."""
    red, green, blue = (
        floats_at(line, width),
        floats_at(line + 4 * width, width),
        floats_at(line + 8 * width, width),
    )
    for x in range(width):
        high = max(max(red[x], green[x]), blue[x])
        low = min(min(red[x], green[x]), blue[x])
        one = (high + low) * np.float32(0.5) if middle else high
        red[x] = one
        green[x] = one
        blue[x] = one


@inner
def add_gray(line: Integer, width: Integer, total: Integer) -> None:
    """Add the gray, 0.299 r + 0.587 g + 0.114 b, of each pixel to ``total``, the address of float32 [W]."""
    red, green, blue = (
        floats_at(line, width),
        floats_at(line + 4 * width, width),
        floats_at(line + 8 * width, width),
    )
    sums = floats_at(total, width)
    for x in range(width):
        sums[x] += _RED * red[x] + _GREEN * green[x] + _BLUE * blue[x]


@inner
def mix(line: Integer, width: Integer, other: Integer, own: Real, theirs: Real) -> None:
    """Replace a line by the weighted sum of it and the line at ``other`` (BLEND)."""
    values, more = floats_at(line, 3 * width), floats_at(other, 3 * width)
    for x in range(3 * width):
        values[x] = values[x] * own + more[x] * theirs


@inner
def paste(line: Integer, width: Integer, other: Integer, left: Integer, right: Integer) -> None:
    """Copy columns ``left`` to ``right`` (exclusive) of the line at ``other`` to this line (CUT)."""
    values, more = floats_at(line, 3 * width), floats_at(other, 3 * width)
    for channel in range(3):
        for x in range(channel * width + left, channel * width + right):
            values[x] = more[x]
