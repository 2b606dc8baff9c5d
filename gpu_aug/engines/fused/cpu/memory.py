"""Views of memory at an address as arrays, conversion to half precision, and stores past the cache, for compiled functions.

Addresses are ``int64``. A view of an address costs nothing, whereas a slice of an array would count references.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gpu_aug.compiled.jit import view_f32, view_i32, view_u8, view_u16

Integer = Any
"""A whole number of Python, NumPy or compiled code, ``int64`` there."""

Real = Any
"""The same with a fraction, ``float32`` or ``float64``."""

bytes_at, shorts_at, ints_at, floats_at = view_u8, view_u16, view_i32, view_f32
"""Each takes an address and a count, and returns uint8, uint16, int32 or float32 [count]."""


def _to_half() -> Any:
    """Return a compiled function that rounds float32 to the bits of a float16, ties to even."""

    def round_(_context: Any, _value: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

        return types.uint16(types.float32), generate

    make: Any = intrinsic
    return make(round_)


half_bits = _to_half()


CACHE_LINE = 64
"""Bytes of a cache line; only full lines may go past the cache, as a part of one costs a read of all of it."""


def _stream() -> Any:
    """Return a compiled function that copies full cache lines past the cache.

    That function takes two addresses and a count of bytes. The target and the count are multiples of CACHE_LINE. Other
    threads see the values only after ``fence``.
    """
    long, line = ir.IntType(64), ir.VectorType(ir.IntType(8), CACHE_LINE)

    def copy(_context: Any, _source: Any, _target: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            (*addresses, count), step = arguments, long(CACHE_LINE)
            with cgutils.for_range_slice(builder, long(0), count, step, long) as (at, _):
                read, written = (
                    builder.inttoptr(builder.add(address, at), line.as_pointer())
                    for address in addresses
                )
                stored = builder.store(builder.load(read, align=1), written, align=CACHE_LINE)
                stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    make: Any = intrinsic
    return make(copy)


def _fence() -> Any:
    """Return a compiled function after which other threads see all that ``stream`` has written.

    A store that releases a lock does not wait for stores past the cache.
    """

    def wait(_context: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            builder.fence("seq_cst")
            return context.get_dummy_value()

        return types.void(), generate

    make: Any = intrinsic
    return make(wait)


stream, fence = _stream(), _fence()
