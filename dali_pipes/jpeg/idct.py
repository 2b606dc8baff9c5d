"""The inverse discrete cosine transform of libjpeg ("islow"), bit for bit.

Fixed-point numbers of 13 bits. Loeffler, Ligtenberg and Moschytz, "Practical Fast 1-D DCT Algorithms with
11 Multiplications", ICASSP 1989. Sums of 16-bit numbers wrap where libjpeg-turbo's vector code lets them wrap,
so that even blocks from damaged files come out equal.
"""

from typing import Any

from dali_pipes.jpeg.simd import Builder, Lanes, load, written_out

OVERFLOW = 144
"""At this byte behind a block begin 16 that stay zero unless coefficients were out of range."""

FRACTION = 13  # bits behind the point in the factors
GUARD = 2  # bits behind the point between the passes


def fixed(factor: float) -> int:
    """A factor as a whole number, FRACTION bits behind the point."""
    return round(factor * (1 << FRACTION))


def _invert(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Transform down the columns: eight vectors of 16 bits to eight of 32, scaled down by 2**shift."""
    even_2, even_6 = rows[2].widen(32), rows[6].widen(32)
    twist = (even_2 + even_6) * fixed(0.541196100)
    low = twist - even_6 * fixed(1.847759065)
    high = twist + even_2 * fixed(0.765366865)
    rounding = 1 << (shift - 1)
    total = ((rows[0] + rows[4]).widen(32) << FRACTION) + rounding
    difference = ((rows[0] - rows[4]).widen(32) << FRACTION) + rounding
    evens = [total + high, difference + low, difference - low, total - high]
    odds = _odd_part(rows)
    return [
        *((even + odd) >> shift for even, odd in zip(evens, odds, strict=True)),
        *((even - odd) >> shift for even, odd in zip(evens[::-1], odds[::-1], strict=True)),
    ]


def _odd_part(rows: list[Lanes]) -> list[Lanes]:
    wide_7, wide_5, wide_3, wide_1 = (rows[row].widen(32) for row in (7, 5, 3, 1))
    sum_73, sum_51 = (rows[7] + rows[3]).widen(32), (rows[5] + rows[1]).widen(32)
    common = (sum_73 + sum_51) * fixed(1.175875602)
    sum_73 = common - sum_73 * fixed(1.961570560)
    sum_51 = common - sum_51 * fixed(0.390180644)
    sum_71 = (wide_7 + wide_1) * fixed(0.899976223)
    sum_53 = (wide_5 + wide_3) * fixed(2.562915447)
    return [
        wide_1 * fixed(1.501321110) - sum_71 + sum_51,
        wide_3 * fixed(3.072711026) - sum_53 + sum_73,
        wide_5 * fixed(2.053119869) - sum_53 + sum_51,
        wide_7 * fixed(0.298631336) - sum_71 + sum_73,
    ]


def turn(rows: list[Lanes]) -> list[Lanes]:
    """Transpose eight vectors of eight lanes: three times the perfect shuffle."""
    for _ in range(3):
        pairs = [(rows[row], rows[row + 4]) for row in range(4)]
        low = [lane for row in range(4) for lane in (row, row + 8)]
        high = [lane + 4 for lane in low]
        rows = [first.pick(second, half) for first, second in pairs for half in (low, high)]
    return rows


def load_rows(builder: Builder, block: Any, quant: Any, filled: int) -> list[Lanes]:
    """Dequantise the first rows of a block and fill them with zeros; the others are zero already.

    Where the first row is out of a sound file's range, libjpeg's result depends on the processor: that is noted
    behind the block.
    """
    rows = [
        load(builder, block, 16 * row, 16, 8) * load(builder, quant, 16 * row, 16, 8)
        for row in range(filled)
    ]
    zero = rows[0] - rows[0]
    overflow = rows[0] ^ ((rows[0] << GUARD) >> GUARD)
    (load(builder, block, OVERFLOW, 16, 8) | overflow).store(block, OVERFLOW)
    for row in range(filled):
        zero.store(block, 16 * row)
    return rows + [zero] * (8 - filled)


def _transform(
    builder: Builder, block: Any, quant: Any, out: Any, stride: Any, filled: int
) -> None:
    rows = load_rows(builder, block, quant, filled)
    narrowed = [row.clamp(-32768, 32767).narrow(16) for row in _invert(rows, FRACTION - GUARD)]
    columns = turn(narrowed)[:filled] + rows[filled:]
    turned = [
        column.clamp(-128, 127).narrow(16) for column in _invert(columns, FRACTION + GUARD + 3)
    ]
    for row in turn(turned):
        (row + 128).narrow(8).store(out)
        out = builder.add(out, stride)


def _transform_all(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    _transform(builder, block, quant, out, stride, 8)


def _transform_corner(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    _transform(builder, block, quant, out, stride, 4)


def _transform_flat(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    level = load(builder, block, 0, 16, 1) * load(builder, quant, 0, 16, 1)
    level = (((level << GUARD).widen(32) + 16) >> 5).clamp(-128, 127) + 128
    row = level.narrow(8)
    row = row.pick(row, [0] * 8)
    (level - level).narrow(16).store(block)
    for _ in range(8):
        row.store(out)
        out = builder.add(out, stride)


def _pass(builder: Builder, block: Any, quant: Any) -> None:
    load_rows(builder, block, quant, 8)


invert_block = written_out(_transform_all, 4)
"""Dequantise and transform a block, and fill it with zeros.

Arguments, all addresses but the last: int16 [8, 8] coefficients, int16 [8, 8] quantisation steps,
where the first of eight rows of eight uint8 goes, bytes from one row to the next.
"""

invert_corner = written_out(_transform_corner, 4)
"""The same for blocks of which all but the first four rows and columns are zero."""

invert_flat = written_out(_transform_flat, 4)
"""The same for blocks of which all but the first coefficient are zero."""

pass_over = written_out(_pass, 2)
"""Only note behind a block what is out of range, and fill it with zeros."""
