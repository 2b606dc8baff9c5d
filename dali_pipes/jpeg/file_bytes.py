"""Functions that compiled code calls: read bytes from files, copy bytes, and find JPEG markers."""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import raw_memcpy

from gpu_aug.compiled.jit import (
    c_function,
    has_ff,
    inlined,
    inner,
    intrinsic_of,
    load_be64,
    load_u8,
    signed,
)

# Offsets and lengths have 64 bits: only 64-bit Linux is supported.
_pread = c_function("pread", 64, 32, 64, 64, 64)


@inlined
def read_bytes(file: int, address: int, length: int, start: int) -> bool:
    """Read bytes from offset `start` of a file to an address; return False if the file is too short or unreadable."""
    while length > 0:
        count = _pread(file, address, length, start)
        if count <= 0:
            return False
        address, length, start = address + count, length - count, start + count
    return True


def _copying(_context: Any, *_arguments: Any) -> Any:
    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, source = (builder.inttoptr(one, pointer) for one in arguments[:2])
        raw_memcpy(builder, to, source, arguments[2], 1)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_bytes = intrinsic_of(_copying, 3)
"""Copy bytes. Arguments: target address, source address, number of bytes."""


@inlined
def be16(address: int) -> int:
    """Return the big-endian 16-bit number at an address."""
    return signed(load_u8(address)) << 8 | signed(load_u8(address + 1))


@inner
def find_marker(source: int, stop: int) -> int:
    """Return the address of the next marker, or of the last two bytes before `stop`."""
    while source + 2 < stop:
        if source + 8 < stop and not has_ff(load_be64(source)):
            source += 8
        elif load_u8(source) == 0xFF and load_u8(source + 1) != 0:
            return source
        else:
            source += 1
    return stop - 2
