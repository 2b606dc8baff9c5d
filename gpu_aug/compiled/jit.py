"""Decorators for functions that Numba compiles to machine code at their first call.

They run without the GIL. The code of a `kernel` is stored (see ``cache.py``), so that later processes load it, with that of the
`inner` and `inlined` functions that it calls; `separate` functions are units of their own.
"""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic

from gpu_aug.compiled.cache import CompiledFunctionCache
from gpu_aug.compiled.linking import LinkedCompiler
from gpu_aug.compiled.units import Unit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function for the processor it runs on; it neither holds nor needs the GIL.

    Indices are not checked, and a division by zero is not an error.
    """
    compiled = _compiled(function)
    compiled._cache = CompiledFunctionCache(function)
    return cast(Function, compiled)


def inner(function: Function) -> Function:
    """Compile a function that only kernels call, as a part of each of them; see `gpu_aug.compiled.linking`.

    It cannot be called from Python.
    """
    inner_function = _compiled(function, no_cpython_wrapper=True, pipeline_class=LinkedCompiler)
    return cast(Function, inner_function)


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    # No "cfunc", a wrapper for calls from C.
    compile_: Any = numba.njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)
    return compile_(function)


def separate(function: Callable[..., int], deferred: int | None = None) -> Any:
    """Compile an int64 function as a unit of its own, at its first call from a kernel; see `Unit`.

    Numba compiles a kernel together with all functions that it calls, again at each level of calls, which takes long
    for large ones. Kernels call the result through a cell of memory, by a name that the linker knows.

    Returns:
        A function that kernels can call, with the `Unit` as attribute ``unit``.
    """
    unit = Unit(function, deferred)
    arguments_type = [types.int64] * unit.num_arguments

    def typed(_context: Any, *_arguments: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word] * unit.num_arguments)
            known = builder.module.globals
            cell = known.get(unit.name) or ir.GlobalVariable(builder.module, word, unit.name)
            return builder.call(builder.inttoptr(builder.load(cell), kind.as_pointer()), arguments)

        return types.int64(*arguments_type), generate

    called = intrinsic_of(typed, unit.num_arguments)
    called.unit = unit
    return called


def intrinsic_of(typed: Callable[..., Any], num_arguments: int) -> Any:
    """Return the Numba intrinsic of a typing function with ``num_arguments`` arguments.

    ``typed`` takes the context and the types of the arguments.
    """
    # Numba reads the number of parameters from the signature.
    names = ["context", *(f"argument_{number}" for number in range(num_arguments))]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    typed.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    make: Any = intrinsic
    return make(typed)


def inlined(function: Function) -> Function:
    """Compile a small function into each of its callers."""
    return cast(Function, _compiled(function, inline="always"))


def _load(kind: Any, *, swapped: bool = False) -> Any:
    """Return a function for kernels that reads a number at any address."""

    def load(_context: Any, _address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            width = ir.IntType(kind.bitwidth)
            loaded = builder.load(builder.inttoptr(arguments[0], width.as_pointer()))
            loaded.align = 1
            return builder.bswap(loaded) if swapped else loaded

        return kind(types.uintp), generate

    make: Any = intrinsic
    return make(load)


def _store(kind: Any, *, swapped: bool = False) -> Any:
    """Return a function for kernels that writes the lowest bits of an integer to any address."""

    def store(_context: Any, _address: Any, value: Any) -> Any:
        def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            width = ir.IntType(kind.bitwidth)
            pointer = builder.inttoptr(arguments[0], width.as_pointer())
            kept = builder.trunc(arguments[1], width) if kind.bitwidth < 64 else arguments[1]
            builder.store(builder.bswap(kept) if swapped else kept, pointer).align = 1
            return target.get_dummy_value()

        return types.void(types.uintp, value), generate

    make: Any = intrinsic
    return make(store)


def _view(kind: Any) -> Any:
    """Return a function for kernels that returns the numbers at an address as an array."""
    pointer_type: Any = types.CPointer(kind)  # type: ignore[attr-defined]

    def pointer(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(pointer_type))

        return pointer_type(types.uintp), generate

    make: Any = intrinsic
    to_pointer = make(pointer)

    def view(address: Any, shape: Any) -> Any:
        return numba.carray(to_pointer(address), shape)

    return inlined(view)


view_u8, view_u16, view_i16, view_i32, view_i64, view_f32 = (
    _view(kind)
    for kind in (types.uint8, types.uint16, types.int16, types.int32, types.int64, types.float32)
)
"""Each takes an address and a length, or a tuple of lengths, and returns the numbers there as an array."""


def record_at(kind: "np.dtype[np.void]") -> Any:
    """Return a function for kernels that returns the record at an address, whose fields are read and written by name."""
    record = numba.from_dtype(kind)

    def view(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.uintp), generate

    make: Any = intrinsic
    return make(view)


load_u8 = _load(types.uint8)
"""The byte at an address (an unsigned number, as in ``uintp``)."""

load_u16 = _load(types.uint16)
"""The unsigned number in the two bytes at an address, lowest byte first."""

load_i16 = _load(types.int16)
"""The signed number in the two bytes at an address."""

load_i32 = _load(types.int32)
"""The signed number in the four bytes at an address."""

load_i64 = _load(types.int64)
"""The eight bytes at an address as a signed number, lowest byte first."""

load_be64 = _load(types.uint64, swapped=True)
"""The eight bytes at an address, which need not be aligned, as a number that begins with the first one."""

store_u8 = _store(types.uint8)
"""Write the lowest byte of a 64-bit number to an address."""

store_i16 = _store(types.int16)
"""Write the lowest two bytes of a 64-bit number to an address, lowest first."""

store_i64 = _store(types.int64)
"""Write a 64-bit number to an address, lowest byte first."""

store_be64 = _store(types.uint64, swapped=True)
"""Write eight bytes to an address, which need not be aligned, the number's highest byte first."""

# The lowest and the highest bit of each byte of a word.
_LOW_BITS, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@inlined
def has_ff(word: Any) -> bool:
    """Return whether one of the eight bytes of a uint64 is 0xFF."""
    return bool(((~word - _LOW_BITS) & word & _HIGH_BITS) != np.uint64(0))


signed: Callable[[Any], int] = cast(Any, np.int64)
"""A number as one of 64 bits with a sign; compiled code makes a fraction of a sum of both kinds."""

unsigned: Callable[[Any], int] = cast(Any, np.uint64)
"""A number as one of 64 bits without a sign."""


def c_function(name: str, *widths: int, variadic: bool = False) -> Any:
    """Return a function for kernels that calls a function of the C library.

    Args:
        name: Name of the C function, which must be loaded in the process.
        widths: Bits of the result and of each argument, 32 or 64; an address has 64.
        variadic: Whether the C function is variadic; no additional arguments are passed.

    Returns:
        A function that takes and returns int64; narrow results are sign-extended.
    """
    result, *arguments = (ir.IntType(width) for width in widths)
    kind = ir.FunctionType(result, arguments, var_arg=variadic)

    def typed(_context: Any, *_arguments: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, values: Any) -> Any:
            call = get_or_insert_function(builder.module, kind, name)
            given = [
                value if width == value.type else builder.trunc(value, width)
                for value, width in zip(values, arguments, strict=True)
            ]
            found = builder.call(call, given)
            return found if widths[0] == 64 else builder.sext(found, ir.IntType(64))

        return types.int64(*[types.int64] * len(arguments)), generate

    return intrinsic_of(typed, len(arguments))
