"""Compiled functions that map the bytes of an image by tables of 256 entries, one for each channel."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.cgutils import get_or_insert_function

from gpu_aug.compiled.jit import inner, intrinsic_of
from gpu_aug.engines.fused.cpu.memory import Integer, bytes_at

NUM_BYTES = 256
"""How many values a byte has."""

# Bytes of a register, and of a whole number of pixels, so that each block of registers begins with the first channel.
_REGISTER, _BLOCK = 64, 192
_BYTES, _FLAGS, _LONG = (
    ir.VectorType(ir.IntType(8), _REGISTER),
    ir.VectorType(ir.IntType(1), _REGISTER),
    ir.IntType(64),
)


def _map_blocks() -> Any:
    """Return a compiled function that maps bytes in registers.

    That function takes the addresses of the bytes and of the results, the count of bytes, a multiple of _BLOCK, and the
    address of the tables; see `map_bytes`. It returns how many bytes it has mapped: all, or none if the processor lacks
    AVX-512 VBMI, whose permutation finds 64 bytes at once in a table of 128.
    """

    def map_(_context: Any, _source: Any, _target: Any, _count: Any, _tables: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            # The cache of compiled code depends on these features, too.
            if "+avx512vbmi" not in context.codegen().magic_tuple()[2].split(","):
                return _LONG(0)
            name, kind = "llvm.x86.avx512.vpermi2var.qi.512", ir.FunctionType(_BYTES, [_BYTES] * 3)
            permute = get_or_insert_function(builder.module, kind, name)
            source, target, count, tables = arguments
            # All 12 stay in registers.
            parts = [
                builder.load(_pointer(builder, tables, _LONG(first)), align=1)
                for first in range(0, 3 * NUM_BYTES, _REGISTER)
            ]
            with cgutils.for_range_slice(builder, _LONG(0), count, _LONG(_BLOCK), _LONG) as (at, _):
                for offset in range(0, _BLOCK, _REGISTER):
                    place = builder.add(at, _LONG(offset))
                    values = builder.load(_pointer(builder, source, place), align=1)
                    is_upper = builder.icmp_signed("<", values, ir.Constant(_BYTES, None))
                    mapped = values
                    for channel in range(3):
                        own = parts[4 * channel : 4 * channel + 4]
                        lower = builder.call(permute, [own[0], values, own[1]])
                        upper = builder.call(permute, [own[2], values, own[3]])
                        found = builder.select(is_upper, upper, lower)
                        lanes = [(offset + lane) % 3 == channel for lane in range(_REGISTER)]
                        mapped = builder.select(ir.Constant(_FLAGS, lanes), found, mapped)
                    builder.store(mapped, _pointer(builder, target, place), align=1)
            return count

        return types.int64(*[types.int64] * 4), generate

    return intrinsic_of(map_, 4)


def _pointer(builder: Any, address: Any, offset: Any) -> Any:
    return builder.inttoptr(builder.add(address, offset), _BYTES.as_pointer())


_map_in_registers = _map_blocks()


@inner
def map_bytes(source: Integer, target: Integer, count: Integer, tables: Integer) -> None:
    """Write the bytes that tables give for neighbouring pixels.

    Args:
        source: Address of the pixels, uint8 [count, 3].
        target: Address of the results, uint8 [count, 3]; they do not overlap with the pixels.
        count: Number of pixels.
        tables: Address of the results for each byte, uint8 [3, NUM_BYTES].
    """
    levels, pixels, out = (
        bytes_at(tables, 3 * NUM_BYTES),
        bytes_at(source, 3 * count),
        bytes_at(target, 3 * count),
    )
    blocks = 3 * count - 3 * count % _BLOCK
    done = _map_in_registers(source, target, blocks, tables)
    for x in range(done // 3, count):
        out[3 * x] = levels[pixels[3 * x]]
        out[3 * x + 1] = levels[NUM_BYTES + pixels[3 * x + 1]]
        out[3 * x + 2] = levels[2 * NUM_BYTES + pixels[3 * x + 2]]
