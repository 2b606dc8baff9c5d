"""Arrays at addresses, and half precision, for compiled functions.

Addresses are ``int64``. An array at an address costs nothing to make, where a slice of an array would count
references.
"""

from typing import Any

from llvmlite import ir
from numba import carray
from numba.core import types
from numba.extending import intrinsic

from gpu_aug.compiled.jit import inlined

Integer = Any
"""A whole number of Python, NumPy or compiled code, ``int64`` there."""

Real = Any
"""The same with a fraction, ``float32`` or ``float64``."""


def _pointer(kind: Any) -> Any:
    """Make a function that turns an address into a pointer."""
    pointer: Any = types.__dict__["CPointer"](kind)

    def point(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer))

        return pointer(types.int64), generate

    make: Any = intrinsic
    return make(point)


def _load32() -> Any:
    """Make a function that reads four bytes at any address as a number, the first byte lowest."""

    def load(_context: Any, _address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()))
            loaded.align = 1
            return loaded

        return types.uint32(types.int64), generate

    make: Any = intrinsic
    return make(load)


def _to_half() -> Any:
    """Make a function that rounds float32 to the bits of a float16, to nearest even."""

    def round_(_context: Any, _value: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

        return types.uint16(types.float32), generate

    make: Any = intrinsic
    return make(round_)


_point_to_bytes = _pointer(types.uint8)
_point_to_shorts = _pointer(types.uint16)
_point_to_ints = _pointer(types.int32)
_point_to_floats = _pointer(types.float32)
load_le32 = _load32()
half_bits = _to_half()


@inlined
def bytes_at(address: Integer, count: Integer) -> Any:
    """Return uint8 [count] at an address."""
    return carray(_point_to_bytes(address), count)


@inlined
def shorts_at(address: Integer, count: Integer) -> Any:
    """Return uint16 [count] at an address."""
    return carray(_point_to_shorts(address), count)


@inlined
def ints_at(address: Integer, count: Integer) -> Any:
    """Return int32 [count] at an address."""
    return carray(_point_to_ints(address), count)


@inlined
def floats_at(address: Integer, count: Integer) -> Any:
    """Return float32 [count] at an address."""
    return carray(_point_to_floats(address), count)
