"""Functions that are compiled to machine code when they are first called, by Numba.

They run without Python's lock. What Numba compiled it keeps beside the source (or in its own cache folder
where that cannot be written), so that the next process only loads it.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function for the processor it runs on; it neither holds nor takes Python's lock.

    Indices are not checked and a division by zero is not an error. A function that calls others of other
    files is compiled anew only when its own file has changed: delete the ``__pycache__`` folders after
    a change to what it calls.
    """
    compile_: Any = numba.njit(nogil=True, cache=True, error_model="numpy")
    return cast(Function, compile_(function))


def inlined(function: Function) -> Function:
    """Compile a small function into each of its callers."""
    compile_: Any = numba.njit(nogil=True, error_model="numpy", inline="always")
    return cast(Function, compile_(function))


def _load(width: int, *, swapped: bool) -> Any:
    """Make a function that reads an unsigned number at any address."""
    unsigned: Any = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}[width]

    def load(_context: Any, _address: Any) -> Any:
        def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            loaded = builder.load(pointer)
            loaded.align = 1
            return builder.bswap(loaded) if swapped else loaded

        return unsigned(types.uintp), generate

    make: Any = intrinsic
    return make(load)


load_u8 = _load(8, swapped=False)
"""The byte at an address (an unsigned number, as in ``uintp``)."""

load_be64 = _load(64, swapped=True)
"""The eight bytes at an address, which need not be aligned, as a number that begins with the first one."""
