"""Triton functions that apply stages to the pixels of a tile; see ``program``, "3. Stages"."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"
# ruff: noqa: D417

import triton
import triton.language as tl

from gpu_aug.engines.fused.compile.program import NUM_VALUES, Stage
from gpu_aug.engines.fused.triton.sample import unit

# Triton reads constants of modules only as constexpr.
(
    NOTHING,
    SCALE,
    MATRIX,
    CONTRAST,
    HUE,
    GAMMA,
    SOLARIZE,
    TABLE,
    ROUND,
    FLOOR,
    GRAY_MAX,
    GRAY_MIDDLE,
    HOLES,
) = (tl.constexpr(int(stage)) for stage in Stage)
WIDTH = tl.constexpr(NUM_VALUES)

_ROUNDER = tl.constexpr(1.5 * 2**23)
"""Added to a float32 below 2**22 and taken away again, it rounds to a whole number, ties to even."""

# Philox 4x32-10, as in `gpu_aug.draws`; a noise is its upper 24 bits.
_PHILOX_A = tl.constexpr(0xD2511F53)
_PHILOX_B = tl.constexpr(0xCD9E8D57)
_PHILOX_KEY_A = tl.constexpr(0x9E3779B9)
_PHILOX_KEY_B = tl.constexpr(0xBB67AE85)
_NOISE_STEP = tl.constexpr(2.0**-24)


@triton.jit
def clamp(value, low, high):
    """Return ``value`` clamped to [low, high]; NaN stays NaN, as on the CPU."""
    raised = tl.maximum(value, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(raised, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def steps(value):
    """Return 255 * ``value`` rounded to nearest even and clamped to [0, 255], as float32; 0 for NaN."""
    value = tl.minimum(tl.maximum(value, -1.0), 2.0)
    return tl.minimum(tl.maximum((value * 255.0 + _ROUNDER) - _ROUNDER, 0.0), 255.0)


@triton.jit
def gray_of(r, g, b):
    """Return the gray of pixels, of which the contrast stage takes the mean."""
    return 0.299 * r + 0.587 * g + 0.114 * b


@triton.jit
def scale(v, r, g, b):
    """Return pixels after Stage.SCALE without its limits; its arguments are at ``v``."""
    return (
        tl.load(v) * r + tl.load(v + 3),
        tl.load(v + 5) * g + tl.load(v + 7),
        tl.load(v + 10) * b + tl.load(v + 11),
    )


@triton.jit
def _row(v, r, g, b):
    return tl.load(v) * r + (tl.load(v + 1) * g + (tl.load(v + 2) * b + tl.load(v + 3)))


@triton.jit
def matrix(v, r, g, b):
    """Return pixels after Stage.MATRIX without its limits; its arguments are at ``v``."""
    return _row(v, r, g, b), _row(v + 4, r, g, b), _row(v + 8, r, g, b)


@triton.jit
def limit(v, colour):
    """Return pixels clamped to the limits of the stage whose arguments are at ``v``."""
    r, g, b = colour
    return (
        clamp(r, tl.load(v + 12), tl.load(v + 15)),
        clamp(g, tl.load(v + 13), tl.load(v + 16)),
        clamp(b, tl.load(v + 14), tl.load(v + 17)),
    )


@triton.jit
def contrast(factor, mean, r, g, b):
    """Return pixels after Stage.CONTRAST."""
    shift = mean * (1.0 - factor)
    r, g, b = r * factor + shift, g * factor + shift, b * factor + shift
    return clamp(r, 0.0, 1.0), clamp(g, 0.0, 1.0), clamp(b, 0.0, 1.0)


@triton.jit
def hue(turns, r, g, b):
    """Return pixels after Stage.HUE."""
    high, low = tl.maximum(tl.maximum(r, g), b), tl.minimum(tl.minimum(r, g), b)
    chroma = high - low
    per_chroma = 1.0 / tl.where(chroma == 0.0, 1.0, chroma)
    is_red, is_green = high == r, high == g
    difference = tl.where(is_red, g - b, tl.where(is_green, b - r, r - g))
    sector = tl.where(is_red, 0.0, tl.where(is_green, 2.0, 4.0))
    angle = (difference * per_chroma + sector) + 6.0 * turns
    angle = angle - 6.0 * tl.floor(angle * (1 / 6))
    r = low + chroma * clamp(tl.abs(angle - 3.0) - 1.0, 0.0, 1.0)
    g = low + chroma * clamp(2.0 - tl.abs(angle - 2.0), 0.0, 1.0)
    b = low + chroma * clamp(2.0 - tl.abs(angle - 4.0), 0.0, 1.0)
    return r, g, b


@triton.jit
def power(value, exponent):
    """Return one channel after Stage.GAMMA."""
    is_positive = value > 0.0
    raised = tl.exp2(exponent * tl.log2(tl.where(is_positive, value, 1.0)))
    return tl.where(is_positive, raised, tl.where(exponent == 0.0, 1.0, 0.0))


@triton.jit
def solarize(value, threshold):
    """Return one channel after Stage.SOLARIZE."""
    return tl.where(value >= threshold, 1.0 - value, value)


@triton.jit
def look_up(table, value):
    """Return one channel after Stage.TABLE; ``table`` points to its float32 [256]."""
    return tl.load(table + steps(value).to(tl.int32))


@triton.jit
def floor_steps(value, summand):
    """Return one channel after Stage.FLOOR, not yet divided by 255."""
    return clamp(tl.floor(255.0 * value + summand), 0.0, 255.0)


@triton.jit
def _philox(counter, key, other_key):
    """Return the four Philox 4x32-10 words, uint32 [N], of the counters (counter, 0, 0, 0); see ``gpu_aug.random_fields``."""
    c0 = counter.to(tl.uint32)
    c1, c2, c3 = c0 * 0, c0 * 0, c0 * 0
    for _ in range(10):
        high_a, low_a = tl.umulhi(c0, c0 * 0 + _PHILOX_A), c0 * _PHILOX_A
        high_b, low_b = tl.umulhi(c2, c2 * 0 + _PHILOX_B), c2 * _PHILOX_B
        c0, c1, c2, c3 = high_b ^ c1 ^ key, low_b, high_a ^ c3 ^ other_key, low_a
        key += _PHILOX_KEY_A
        other_key += _PHILOX_KEY_B
    return c0, c1, c2, c3


@triton.jit
def noise(index, key, other_key):
    """Return the elements of a ``gpu_aug.random_fields.uniform_field`` at flat indices, float32 [N]."""
    c0, c1, c2, c3 = _philox(index >> 2, key, other_key)
    is_odd = (index & 1) != 0
    word = tl.where((index & 2) != 0, tl.where(is_odd, c3, c2), tl.where(is_odd, c1, c0))
    return (word >> 8).to(tl.float32) * _NOISE_STEP


@triton.jit
def paint_holes(v, places, size, tile, end, x, y, r, g, b):
    """Return pixels after Stage.HOLES; a hole that does not touch the tile costs only a test.

    Args:
        v: Pointer to the arguments of the stage.
        places: Pointers to the holes, int32, four for each; to the colours, float32, three for each hole; and to the keys,
            int32, two for each.
        size: Height and width of the result.
        tile: Left and top of the tile.
        end: Right and bottom of the tile.
        x: Columns of the pixels, int32 [N].
        y: Rows of the pixels, int32 [N].
        r: Red of the pixels, float32 [N]; g and b are green and blue.
    """
    holes, colours, keys = places
    height, width = size
    first = tl.load(v).to(tl.int32)
    is_noise = tl.load(v + 2) != 0
    for number in range(first, first + tl.load(v + 1).to(tl.int32)):
        hole = holes + 4 * number
        top, left = tl.load(hole), tl.load(hole + 1)
        bottom, right = tl.load(hole + 2), tl.load(hole + 3)
        touches = (left < end[0]) & (right > tile[0]) & (top < end[1]) & (bottom > tile[1])
        if touches & (left < right) & (top < bottom):
            painted = (x >= left) & (x < right) & (y >= top) & (y < bottom)
            if is_noise:
                key = keys + 2 * tl.load(v + 3).to(tl.int32)
                one, other = tl.load(key).to(tl.uint32), tl.load(key + 1).to(tl.uint32)
                index = y * width + x
                plane = height * width
                r = tl.where(painted, noise(index, one, other), r)
                g = tl.where(painted, noise(index + plane, one, other), g)
                b = tl.where(painted, noise(index + 2 * plane, one, other), b)
            else:
                colour = colours + 3 * number
                r = tl.where(painted, tl.load(colour), r)
                g = tl.where(painted, tl.load(colour + 1), g)
                b = tl.where(painted, tl.load(colour + 2), b)
    return r, g, b


@triton.jit
def rare(code, v, tables, r, g, b):
    """Return pixels after one of the stages of HAS_RARE; ``v`` points to its arguments, ``tables`` to the image's tables."""
    if code == TABLE:
        table = tables + tl.load(v).to(tl.int32) * 768
        r, g, b = look_up(table, r), look_up(table + 256, g), look_up(table + 512, b)
    elif code == GAMMA:
        gamma = tl.load(v)
        r, g, b = power(r, gamma), power(g, gamma), power(b, gamma)
    elif code == SOLARIZE:
        level = tl.load(v)
        r, g, b = solarize(r, level), solarize(g, level), solarize(b, level)
    elif code == ROUND:
        r, g, b = unit(steps(r)), unit(steps(g)), unit(steps(b))
    elif code == FLOOR:
        summand = tl.load(v)
        r, g = unit(floor_steps(r, summand)), unit(floor_steps(g, summand))
        b = unit(floor_steps(b, summand))
    elif code == GRAY_MAX:
        r = tl.maximum(tl.maximum(r, g), b)
        g, b = r, r
    elif code == GRAY_MIDDLE:
        r = (tl.maximum(tl.maximum(r, g), b) + tl.minimum(tl.minimum(r, g), b)) / 2
        g, b = r, r
    return r, g, b
