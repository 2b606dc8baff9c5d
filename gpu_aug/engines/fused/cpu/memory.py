"""Views of memory at an address as arrays, and conversion to half precision, for compiled functions.

Addresses are ``int64``. A view of an address costs nothing, whereas a slice of an array would count references.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
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
