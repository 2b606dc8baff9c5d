"""Loops over bytes in vector registers, for the resampling kernels.

They use LLVM's generic vectors, which LLVM translates to the instructions of the processor; so no instruction set is
named. Addresses, strides and counts are ``int64``; nothing is checked.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Types of LLVM.
_BYTE, _SHORT, _INT, _LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_PART = 16  # lanes of one register of 512 bits; LLVM keeps wider ones in no register at all
_NARROW, _WIDE = ir.VectorType(_BYTE, _PART), ir.VectorType(_INT, _PART)

TILE = 16
"""Rows and columns that `transpose_tile` turns at once."""


def _weigh(lanes: int) -> Any:
    """Return a compiled function that computes a weighted sum of rows of bytes.

    That function takes the address of the first row, the row stride in bytes, the address of the ``int16`` weights, the number of
    rows, the binary digits of the weights (at least 1), and the address of the result. It writes ``lanes`` bytes: the
    sums, rounded half up and limited to 255.
    """
    parts = range(0, lanes, _PART)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        first, stride, weights, count, bits, result = arguments
        bits = builder.trunc(bits, _INT)
        half = builder.shl(_INT(1), builder.sub(bits, _INT(1)))
        totals = [cgutils.alloca_once_value(builder, _splat(builder, half)) for _ in parts]
        with cgutils.for_range(builder, count, intp=_LONG) as loop:
            row = builder.add(first, builder.mul(loop.index, stride))
            address = builder.add(weights, builder.shl(loop.index, _LONG(1)))
            weight = _splat(builder, builder.zext(_load(builder, address, _SHORT), _INT))
            for part, total in zip(parts, totals, strict=True):
                pixels = _load(builder, builder.add(row, _LONG(part)), _NARROW)
                product = builder.mul(builder.zext(pixels, _WIDE), weight)
                builder.store(builder.add(builder.load(total), product), total)
        limit = ir.Constant(_WIDE, [255] * _PART)
        for part, total in zip(parts, totals, strict=True):
            sums = builder.lshr(builder.load(total), _splat(builder, bits))
            least = builder.select(builder.icmp_unsigned("<", sums, limit), sums, limit)
            _store(builder, builder.add(result, _LONG(part)), builder.trunc(least, _NARROW))
        return context.get_dummy_value()

    def weigh(
        _typing: Any, _first: Any, _stride: Any, _weights: Any, _count: Any, _bits: Any, _at: Any
    ) -> Any:
        return types.void(*[types.int64] * 6), generate

    make: Any = intrinsic
    return make(weigh)


def _splat(builder: Any, value: Any) -> Any:
    """Return a vector in which all elements are ``value``."""
    undefined = ir.Constant(_WIDE, ir.Undefined)
    one = builder.insert_element(undefined, value, _INT(0))
    return builder.shuffle_vector(one, undefined, ir.Constant(_WIDE, [0] * _PART))


def _load(builder: Any, address: Any, kind: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
    loaded.align = 1
    return loaded


def _store(builder: Any, address: Any, value: Any) -> None:
    stored = builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
    stored.align = 1


weigh_48 = _weigh(48)
weigh_64 = _weigh(64)


def _transpose_tile() -> Any:
    """Return a compiled function that transposes a tile of 16 rows of 16 bytes.

    That function takes the address of the first row and the row stride in bytes, of the source and then of the target.
    """
    row = ir.VectorType(_BYTE, TILE)
    halves = [
        ir.Constant(
            ir.VectorType(_INT, TILE), [(at // 2) + TILE * (at % 2) for at in range(first, last)]
        )
        for first, last in ((0, TILE), (TILE, 2 * TILE))
    ]

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        source, source_stride, target, target_stride = arguments
        rows = []
        for number in range(TILE):
            offset = builder.mul(source_stride, _LONG(number))
            rows.append(_load(builder, builder.add(source, offset), row))
        # Interleaving row i with row i + 8, four times over, brings every byte to its place.
        for _ in range(4):
            pairs = zip(rows[: TILE // 2], rows[TILE // 2 :], strict=True)
            rows = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in halves]
        for number, column in enumerate(rows):
            offset = builder.mul(target_stride, _LONG(number))
            _store(builder, builder.add(target, offset), column)
        return context.get_dummy_value()

    def transpose(
        _typing: Any, _source: Any, _stride: Any, _target: Any, _target_stride: Any
    ) -> Any:
        return types.void(*[types.int64] * 4), generate

    make: Any = intrinsic
    return make(transpose)


transpose_tile = _transpose_tile()
