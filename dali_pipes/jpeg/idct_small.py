"""The inverse transforms that come out 4, 2 or 1 pixels wide: libjpeg's decoding at 1/2, 1/4 and 1/8.

Source: libjpeg-turbo's jidctred.c, bit for bit; the idea is Feig and Linzer's, 1992.
"""

from typing import Any

from dali_pipes.jpeg.idct import FRACTION, GUARD, fixed, load_rows, turn
from dali_pipes.jpeg.simd import Builder, Lanes, written_out
from gpu_aug.compiled.jit import kernel


def _to_four(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Down the columns: eight vectors of 16 bits to four of 32, scaled down by 2**shift."""
    wide = [row.widen(32) for row in rows]
    level = (wide[0] << (FRACTION + 1)) + (1 << (shift - 1))
    even = wide[2] * fixed(1.847759065) - wide[6] * fixed(0.765366865)
    inner = _weigh(wide, {7: -0.211164243, 5: 1.451774981, 3: -2.172734803, 1: 1.061594337})
    outer = _weigh(wide, {7: -0.509795579, 5: -0.601344887, 3: 0.899976223, 1: 2.562915447})
    sums = [level + even + outer, level - even + inner, level - even - inner, level + even - outer]
    return [total >> shift for total in sums]


def _to_two(rows: list[Lanes], shift: int) -> list[Lanes]:
    """Down the columns: eight vectors of 16 bits to two of 32, scaled down by 2**shift."""
    wide = [row.widen(32) for row in rows]
    level = (wide[0] << (FRACTION + 2)) + (1 << (shift - 1))
    odd = _weigh(wide, {7: -0.720959822, 5: 0.850430095, 3: -1.272758580, 1: 3.624509785})
    return [(level + odd) >> shift, (level - odd) >> shift]


def _weigh(wide: list[Lanes], factors: dict[int, float]) -> Lanes:
    terms = [wide[row] * fixed(factor) for row, factor in factors.items()]
    return terms[0] + terms[1] + terms[2] + terms[3]


def _transform(
    transform: Any, extra: int, builder: Builder, block: Any, quant: Any, out: Any, stride: Any
) -> None:
    rows = load_rows(builder, block, quant, 8)
    nothing = rows[0] - rows[0]
    narrowed = [
        row.clamp(-32768, 32767).narrow(16) for row in transform(rows, FRACTION - GUARD + extra)
    ]
    side = len(narrowed)
    columns = turn(narrowed + [nothing] * (8 - side))
    pixels = transform(columns, FRACTION + GUARD + 3 + extra)
    pixels = [column.clamp(-128, 127).narrow(16) + 128 for column in pixels]
    for row in turn(pixels + [nothing] * (8 - side))[:side]:
        row.pick(row, range(side)).narrow(8).store(out)
        out = builder.add(out, stride)


def _transform_half(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    _transform(_to_four, 1, builder, block, quant, out, stride)


def _transform_quarter(builder: Builder, block: Any, quant: Any, out: Any, stride: Any) -> None:
    _transform(_to_two, 2, builder, block, quant, out, stride)


def _transform_eighth(builder: Builder, block: Any, quant: Any, out: Any, _stride: Any) -> None:
    level = load_rows(builder, block, quant, 8)[0]
    level = ((level.pick(level, [0]).widen(32) + 4) >> 3).clamp(-128, 127) + 128
    level.narrow(8).store(out)


_invert_half = written_out(_transform_half, 4)
_invert_quarter = written_out(_transform_quarter, 4)
_invert_eighth = written_out(_transform_eighth, 4)


@kernel
def invert_small(side: int, block: int, quant: int, out: int, stride: int) -> None:
    """Dequantise and transform a block to side x side pixels, and fill it with zeros.

    Args:
        side: 4, 2 or 1.
        block: Address of int16 [8, 8] coefficients.
        quant: Address of int16 [8, 8] quantisation steps.
        out: Address where the first row of uint8 goes.
        stride: Bytes from one row to the next.
    """
    if side == 4:
        _invert_half(block, quant, out, stride)
    elif side == 2:
        _invert_quarter(block, quant, out, stride)
    else:
        _invert_eighth(block, quant, out, stride)
