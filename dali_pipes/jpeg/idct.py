"""libjpeg's inverse DCTs, bit for bit: "islow", and the transforms to 4, 2 or 1 pixels per side.

Fixed-point numbers with 13 fraction bits. Loeffler, Ligtenberg and Moschytz, "Practical Fast 1-D DCT Algorithms with 11
Multiplications", ICASSP 1989. Sums of 16-bit numbers wrap where they wrap in libjpeg-turbo's vector code, so even
blocks of damaged files are equal. The smaller transforms decode at 1/2, 1/4 and 1/8, as in libjpeg-turbo's jidctred.c
(the idea is from Feig and Linzer, 1992).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out
from gpu_aug.compiled.jit import inlined, inner

OVERFLOW = 144
"""Offset in bytes from the start of a block to 16 bytes that stay zero unless coefficients were out of range."""

CORNER = 10
"""The first ten coefficients in zigzag order lie in four rows and columns."""

_FRACTION = 13  # fraction bits of the factors
_GUARD = 2  # fraction bits between the two passes


def _fixed(factor: float) -> int:
    """Return a factor as an integer with _FRACTION fraction bits."""
    return round(factor * (1 << _FRACTION))


def _to_eight(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Transform eight vectors of 16 bits down the columns; return eight vectors of 32 bits, divided by 2**shift."""
    # Only 16-bit numbers are multiplied, and by factors of 16 bits: the compiler then finds instructions for two products.
    even_2, even_6 = rows[2].widen(32), rows[6].widen(32)
    twist = _fixed(0.541196100)
    low = even_2 * twist + even_6 * (twist - _fixed(1.847759065))
    high = even_2 * (twist + _fixed(0.765366865)) + even_6 * twist
    rounding = 1 << (shift - 1)
    total = ((rows[0] + rows[4]).widen(32) << _FRACTION) + rounding
    difference = ((rows[0] - rows[4]).widen(32) << _FRACTION) + rounding
    evens = [total + high, difference + low, difference - low, total - high]
    odds = _odd_part(rows)
    return [
        *((even + odd) >> shift for even, odd in zip(evens, odds, strict=True)),
        *((even - odd) >> shift for even, odd in zip(evens[::-1], odds[::-1], strict=True)),
    ]


def _odd_part(rows: list[Lanes]) -> list[Lanes]:
    wide_7, wide_5, wide_3, wide_1 = (rows[row].widen(32) for row in (7, 5, 3, 1))
    wide_73, wide_51 = (rows[7] + rows[3]).widen(32), (rows[5] + rows[1]).widen(32)
    common, far, near = _fixed(1.175875602), _fixed(0.899976223), _fixed(2.562915447)
    sum_73 = wide_73 * (common - _fixed(1.961570560)) + wide_51 * common
    sum_51 = wide_73 * common + wide_51 * (common - _fixed(0.390180644))
    return [
        wide_1 * (_fixed(1.501321110) - far) + wide_7 * -far + sum_51,
        wide_3 * (_fixed(3.072711026) - near) + wide_5 * -near + sum_73,
        wide_5 * (_fixed(2.053119869) - near) + wide_3 * -near + sum_51,
        wide_7 * (_fixed(0.298631336) - far) + wide_1 * -far + sum_73,
    ]


def _transpose(rows: list[Lanes]) -> list[Lanes]:
    """Transpose eight vectors of eight lanes, by three perfect shuffles."""
    for _ in range(3):
        rows = _shuffle(rows)
    return rows


def _shuffle(rows: list[Lanes]) -> list[Lanes]:
    """Interleave the lanes of the first half of the vectors with those of the second half."""
    middle, count = len(rows) // 2, rows[0].count
    low = [lane for row in range(count // 2) for lane in (row, row + count)]
    high = [lane + count // 2 for lane in low]
    pairs = zip(rows[:middle], rows[middle:], strict=True)
    return [first.pick(second, half) for first, second in pairs for half in (low, high)]


def _load_rows(builder: Builder, block: Any, quant: Any, filled: int) -> list[Lanes]:
    """Dequantise the first rows of a block and zero them in memory; the other rows are zero already.

    If the first row is out of the range of a sound file, libjpeg's result depends on the processor. That is noted
    behind the block.
    """
    rows = [
        load(builder, block, 16 * row, 16, 8) * load(builder, quant, 16 * row, 16, 8)
        for row in range(filled)
    ]
    zero = rows[0] - rows[0]
    overflow = rows[0] ^ ((rows[0] << _GUARD) >> _GUARD)
    (load(builder, block, OVERFLOW, 16, 8) | overflow).store(block, OVERFLOW)
    for row in range(filled):
        zero.store(block, 16 * row)
    return rows + [zero] * (8 - filled)


def _to_four(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Transform eight vectors of 16 bits down the columns; return four vectors of 32 bits, divided by 2**shift."""
    wide = [row.widen(32) for row in rows]
    level = (wide[0] << (_FRACTION + 1)) + (1 << (shift - 1))
    even = wide[2] * _fixed(1.847759065) - wide[6] * _fixed(0.765366865)
    inner = _weigh(wide, {7: -0.211164243, 5: 1.451774981, 3: -2.172734803, 1: 1.061594337})
    outer = _weigh(wide, {7: -0.509795579, 5: -0.601344887, 3: 0.899976223, 1: 2.562915447})
    sums = [level + even + outer, level - even + inner, level - even - inner, level + even - outer]
    return [total >> shift for total in sums]


def _to_two(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Transform eight vectors of 16 bits down the columns; return two vectors of 32 bits, divided by 2**shift."""
    wide = [row.widen(32) for row in rows]
    level = (wide[0] << (_FRACTION + 2)) + (1 << (shift - 1))
    odd = _weigh(wide, {7: -0.720959822, 5: 0.850430095, 3: -1.272758580, 1: 3.624509785})
    return [(level + odd) >> shift, (level - odd) >> shift]


def _weigh(wide: list[Lanes], factors: dict[int, float]) -> Lanes:
    terms = [wide[row] * _fixed(factor) for row, factor in factors.items()]
    return terms[0] + terms[1] + terms[2] + terms[3]


def _transform(
    transform: Callable[[list[Lanes], int], list[Lanes]],
    extra: int,
    filled: int,
    builder: Builder,
    block: Any,
    quant: Any,
    out: Any,
    stride: Any,
) -> None:
    """Write the pixels of a block: transform its coefficients down the columns and then along the rows.

    `transform` takes eight vectors and a shift, and returns one vector per output column, scaled up by `extra`
    additional bits. Only the first `filled` rows and columns may have nonzero coefficients.
    """
    rows = _load_rows(builder, block, quant, filled)
    zero = rows[0] - rows[0]
    narrowed = [
        row.clamp(-32768, 32767).narrow(16) for row in transform(rows, _FRACTION - _GUARD + extra)
    ]
    side = len(narrowed)
    columns = _transpose(narrowed + [zero] * (8 - side))[:filled] + rows[filled:]
    pixels = transform(columns, _FRACTION + _GUARD + 3 + extra)
    pixels += [zero.widen(32)] * (8 - side)
    pairs = [_join(*pixels[number : number + 2]) for number in range(0, 8, 2)]
    for number, row in enumerate(_shuffle(_shuffle(pairs))):
        both = row.recast(8)
        for first in (0, 8)[: side - 2 * number]:
            both.pick(both, range(first, first + side)).store(out)
            out = builder.add(out, stride)


def _join(left: Lanes, right: Lanes) -> Lanes:
    """Return two columns of 32 bits as one of 16 bits: two pixels per row."""
    # Both fit in 16 bits before they are clamped. A shift and a blend avoid two narrowings, which are slow on Intel.
    alternate = [lane + 16 * (lane % 2) for lane in range(16)]
    pair = left.recast(16).pick((right << 16).recast(16), alternate)
    return (pair.clamp(-128, 127).narrow(8) ^ -128).recast(16)


def _transform_flat(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    level = load(builder, block, 0, 16, 1) * load(builder, quant, 0, 16, 1)
    level = (((level << _GUARD).widen(32) + 16) >> 5).clamp(-128, 127) + 128
    row = level.narrow(8)
    row = row.pick(row, [0] * 8)
    (level - level).narrow(16).store(block)
    for _ in range(8):
        row.store(out)
        out = builder.add(out, stride)


def _transform_eighth(builder: Builder, block: Any, quant: Any, out: Any, _stride: Any) -> None:
    level = _load_rows(builder, block, quant, 8)[0]
    level = ((level.pick(level, [0]).widen(32) + 4) >> 3).clamp(-128, 127) + 128
    level.narrow(8).store(out)


def _pass(builder: Builder, block: Any, quant: Any) -> None:
    _load_rows(builder, block, quant, 8)


# Arguments of all, the first three are addresses: int16 [8, 8] coefficients, int16 [8, 8] quantisation steps, the first row of
# uint8 output; bytes from one row to the next. All zero the block; `_invert_flat` needs to zero only the first coefficient.
_invert_block = written_out(partial(_transform, _to_eight, 0, 8), 4)
_invert_corner = written_out(partial(_transform, _to_eight, 0, 4), 4)
_invert_flat = written_out(_transform_flat, 4)
_invert_half = written_out(partial(_transform, _to_four, 1, 8), 4)
_invert_quarter = written_out(partial(_transform, _to_two, 2, 8), 4)
_invert_eighth = written_out(_transform_eighth, 4)

pass_over = written_out(_pass, 2)
"""Zero a block without transforming it; note behind it if coefficients are out of range."""


@inner
def _invert_small(side: int, block: int, quant: int, out: int, stride: int) -> None:
    """Dequantise a block, transform it to side x side pixels, and zero it.

    Args:
        side: 4, 2 or 1.
        block: Address of int16 [8, 8] coefficients.
        quant: Address of int16 [8, 8] quantisation steps.
        out: Address of the first output row, uint8.
        stride: Bytes from one row to the next.
    """
    if side == 4:
        _invert_half(block, quant, out, stride)
    elif side == 2:
        _invert_quarter(block, quant, out, stride)
    else:
        _invert_eighth(block, quant, out, stride)


@inlined
def invert(side: int, last: int, block: int, steps: int, out: int, stride: int) -> None:
    """Dequantise a block, transform it to side x side pixels, and zero it.

    Args:
        side: 8, 4, 2 or 1.
        last: Zigzag index of the last nonzero coefficient, or a larger index.
        block: Address of int16 [8, 8] coefficients.
        steps: Address of int16 [8, 8] quantisation steps.
        out: Address of the first output row, uint8.
        stride: Bytes from one row to the next.
    """
    if side != 8:
        _invert_small(side, block, steps, out, stride)
    elif last == 0:
        _invert_flat(block, steps, out, stride)
    elif last < CORNER:
        _invert_corner(block, steps, out, stride)
    else:
        _invert_block(block, steps, out, stride)
