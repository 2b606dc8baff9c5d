"""Convert rows of components to rows of RGB: chroma upsampling, then YCbCr to RGB.

Source: libjpeg-turbo's jdsample.c ("fancy" upsampling: 3/4 of the nearer pixel and 1/4 of the further one in each
direction, alternately rounded up and down) and jdcolor.c; the results are bit-identical.
"""

from functools import partial
from typing import Any

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out

STEP = 32
"""Pixels of a component that one call reads."""

_FRACTION = 16  # fraction bits of the colour factors
_HALF = 1 << (_FRACTION - 1)


def _fixed(factor: float) -> int:
    return round(factor * (1 << _FRACTION))


def _convert(builder: Builder, luma: Any, blue: Any, red: Any, out: Any) -> None:
    y, cb, cr = (
        load(builder, row, 0, 8, STEP).widen(16, signed=False) for row in (luma, blue, red)
    )
    cb, cr = cb - 128, cr - 128
    # 16 bits suffice for factors below a half; the integer parts of the factors are added separately.
    red_part = _scale(cr, 0.40200) + cr
    blue_part = _scale(cb, -0.22800) + cb + cb
    even, odd = (
        blue * -_fixed(0.34414) + red * _fixed(0.28586) + _HALF
        for blue, red in zip(_split(cb), _split(cr), strict=True)
    )
    lanes = [lane + STEP * (lane % 2) for lane in range(STEP)]
    green_part = (even >> _FRACTION).recast(16).pick(odd.recast(16), lanes) - cr
    r, g, b = ((y + part).clamp(0, 255).narrow(8) for part in (red_part, green_part, blue_part))
    _store_interleaved(r, g, b, out)


def _split(lanes: Lanes) -> tuple[Lanes, Lanes]:
    """Return the even and the odd lanes of a vector of 16 bits, as 32 bits; faster than widening both halves."""
    both = lanes.recast(32)
    return (both << 16) >> 16, both >> 16


def _scale(colour: Lanes, factor: float) -> Lanes:
    """Return a colour times a factor below a half, rounded: the upper halves of 32-bit products of the doubled colour."""
    doubled = colour + colour
    return ((((doubled.widen(32) * _fixed(factor)) >> _FRACTION).narrow(16)) + 1) >> 1


def _store_interleaved(r: Lanes, g: Lanes, b: Lanes, out: Any) -> None:
    red_green, blue = r.pick(g, range(2 * STEP)), b.pick(b, range(2 * STEP))
    lanes = [lane // 3 + lane % 3 * STEP for lane in range(3 * STEP)]
    # Two shuffles of 64 bytes take three quarters of the time of six of 32 bytes, also where vectors have 32 bytes.
    red_green.pick(blue, lanes[: 2 * STEP]).store(out)
    red_green.pick(blue, lanes[2 * STEP :]).store(out, 2 * STEP)


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
"""YCbCr to RGB. Arguments: addresses of STEP uint8 of Y, Cb and Cr, and the output address for 3 * STEP uint8."""

repeat = written_out(_repeat, 2)
"""Gray to RGB. Arguments: address of STEP uint8, and the output address for 3 * STEP uint8."""

spread = written_out(_spread, 2)
"""Double the width. Arguments: address of STEP uint8 (one more on either side is read), output address for 2 * STEP
uint8."""

spread_both = written_out(_spread_both, 3)
"""Double the width between two rows. Arguments: addresses in the nearer and the further row, output address for 2 *
STEP."""

blend_upper = written_out(partial(_blend, 1), 3)
"""Interpolate the upper of two output rows. Arguments: nearer row, further row, output address for STEP uint8."""

blend_lower = written_out(partial(_blend, 2), 3)
"""Interpolate the lower of two output rows, which is rounded the other way. Arguments: nearer row, further row, output
address for STEP uint8."""
