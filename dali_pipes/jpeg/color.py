"""From rows of components to rows of RGB: interpolation of the smaller components, and YCbCr to RGB.

Source: libjpeg-turbo's jdsample.c ("fancy" upsampling: 3/4 of the nearer pixel and 1/4 of the further one, in
either direction, rounded up and down in turn) and jdcolor.c, bit for bit.
"""

from functools import partial
from typing import Any

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out

STEP = 32
"""Pixels of a component that one call reads."""

_FRACTION = 16  # bits behind the point in the factors of the colours
_HALF = 1 << (_FRACTION - 1)


def _fixed(factor: float) -> int:
    return round(factor * (1 << _FRACTION))


def _convert(builder: Builder, luma: Any, blue: Any, red: Any, out: Any) -> None:
    y, cb, cr = (
        load(builder, row, 0, 8, STEP).widen(16, signed=False) for row in (luma, blue, red)
    )
    cb, cr = cb - 128, cr - 128
    # 16 bits suffice where the factors are below a half; whole multiples are added.
    red_part = _scale(cr, 0.40200) + cr
    blue_part = _scale(cb, -0.22800) + cb + cb
    wide = cb.widen(32) * -_fixed(0.34414) + cr.widen(32) * _fixed(0.28586) + _HALF
    green_part = (wide >> _FRACTION).narrow(16) - cr
    r, g, b = ((y + part).clamp(0, 255).narrow(8) for part in (red_part, green_part, blue_part))
    _store_interleaved(r, g, b, out)


def _scale(colour: Lanes, factor: float) -> Lanes:
    """A colour times a factor below a half, rounded: by the upper halves of 32-bit products of its double."""
    doubled = colour + colour
    return ((((doubled.widen(32) * _fixed(factor)) >> _FRACTION).narrow(16)) + 1) >> 1


def _store_interleaved(r: Lanes, g: Lanes, b: Lanes, out: Any) -> None:
    for third in range(3):
        lanes = range(third * STEP, (third + 1) * STEP)
        pairs = r.pick(g, [lane // 3 + (STEP if lane % 3 == 1 else 0) for lane in lanes])
        mixed = [STEP + lane // 3 if lane % 3 == 2 else index for index, lane in enumerate(lanes)]
        pairs.pick(b, mixed).store(out, third * STEP)


def _repeat(builder: Builder, luma: Any, out: Any) -> None:
    y = load(builder, luma, 0, 8, STEP)
    _store_interleaved(y, y, y, out)


def _spread(builder: Builder, row: Any, out: Any) -> None:
    before, here, behind = (
        load(builder, row, offset, 8, STEP).widen(16, signed=False) for offset in (-1, 0, 1)
    )
    _store_pairs((here * 3 + before + 1) >> 2, (here * 3 + behind + 2) >> 2, out)


def _spread_both(builder: Builder, near: Any, far: Any, out: Any) -> None:
    before, here, behind = (
        load(builder, near, offset, 8, STEP).widen(16, signed=False) * 3
        + load(builder, far, offset, 8, STEP).widen(16, signed=False)
        for offset in (-1, 0, 1)
    )
    _store_pairs((here * 3 + before + 8) >> 4, (here * 3 + behind + 7) >> 4, out)


def _store_pairs(even: Lanes, odd: Lanes, out: Any) -> None:
    order = [lane // 2 + (STEP if lane % 2 else 0) for lane in range(2 * STEP)]
    even.narrow(8).pick(odd.narrow(8), order).store(out)


def _blend(rounding: int, builder: Builder, near: Any, far: Any, out: Any) -> None:
    here, other = (load(builder, row, 0, 8, STEP).widen(16, signed=False) for row in (near, far))
    ((here * 3 + other + rounding) >> 2).narrow(8).store(out)


convert = written_out(_convert, 4)
"""YCbCr to RGB: addresses of STEP uint8 of Y, Cb and Cr, and of where 3 STEP uint8 go."""

repeat = written_out(_repeat, 2)
"""Gray to RGB: addresses of STEP uint8 and of where 3 STEP uint8 go."""

spread = written_out(_spread, 2)
"""Twice as wide: addresses of STEP uint8 (one more on either side is read) and of where 2 STEP uint8 go."""

spread_both = written_out(_spread_both, 3)
"""Twice as wide and between two rows: addresses in the nearer and the further row, and of where 2 STEP go."""

blend_upper = written_out(partial(_blend, 1), 3)
"""Between two rows, for the upper of the two rows that come out: nearer, further row, where STEP uint8 go."""

blend_lower = written_out(partial(_blend, 2), 3)
"""The same for the lower one, which is rounded the other way."""
