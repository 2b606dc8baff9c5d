"""Functions that are compiled as units of their own, at their first call from compiled code.

Compiled callers call such a function through a cell of memory that has its address. At first the cell has the address of
a callback to Python, which compiles the function and writes the address of the machine code to the cell. So a process
compiles or loads only the units that it calls, and several processes can compile the units of one kernel in parallel.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

from llvmlite.binding import add_symbol
from numba.core import types
from numba.core.ccallback import CFunc

from gpu_aug.compiled.cache import CompiledFunctionCache

_log = logging.getLogger(__name__)

_PER_THREAD = local()
"""The argument of `calling_units` for each thread that is within, and the exception of a unit that could not be compiled."""


class Unit:
    """A function that takes and returns int64, and is compiled at its first call from compiled code.

    Args:
        function: The function. The functions that it calls must be defined earlier.
        deferred: What a call within `calling_units` may return while another process compiles the function. None: every call
            waits for the compiled function.
    """

    def __init__(self, function: Callable[..., int], deferred: int | None) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.num_arguments = function.__code__.co_argcount
        self._deferred, self._lock = deferred, Lock()
        signature = (types.int64,) * self.num_arguments, types.int64
        code: Any = CFunc(function, signature, {}, {"error_model": "numpy"})
        self._code, code._cache = code, CompiledFunctionCache(function)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * self.num_arguments)
        self._callback = prototype(self._call)  # kept alive
        self._callback_address = ctypes.cast(self._callback, ctypes.c_void_p).value
        self._cell = ctypes.c_void_p(self._callback_address)
        add_symbol(self.name, ctypes.addressof(self._cell))

    def compile(self) -> None:
        """Compile the function or load its stored code."""
        with self._lock:
            if self._code.address is None:
                try:
                    self._code.compile()
                finally:
                    self._code._cache.finish()  # after a failure, which Numba reports for its dispatchers only
                self._cell.value = self._code.address

    def is_stored(self) -> bool:
        """Return whether the code is stored."""
        return bool(self._code._cache.has(self._code._sig))

    def _call(self, *arguments: int) -> Any:
        """Compile the function and call it; return -1 if it cannot be compiled."""
        try:
            is_elsewhere: Any = getattr(_PER_THREAD, "is_compiled_elsewhere", None)
            may_defer = self._deferred is not None and is_elsewhere is not None
            if may_defer and not self.is_stored() and is_elsewhere():
                return self._deferred
            self.compile()
            return self._code.ctypes(*arguments)
        except BaseException as error:  # noqa: BLE001 - no exception passes through compiled code
            _log.exception("%s cannot be compiled", self.name)
            _PER_THREAD.error = error
            return -1


@contextmanager
def calling_units(is_compiled_elsewhere: Callable[[], bool] | None = None) -> Iterator[None]:
    """Raise the exceptions of units that kernels call in a with block, and let units with a ``deferred`` return that at once.

    Args:
        is_compiled_elsewhere: Returns whether another process compiles them, and may start one; None defers nothing.
    """
    _PER_THREAD.is_compiled_elsewhere, _PER_THREAD.error = is_compiled_elsewhere, None
    try:
        yield
    finally:
        _PER_THREAD.is_compiled_elsewhere = None
    error, _PER_THREAD.error = _PER_THREAD.error, None  # its traceback refers to the step's images
    if error is not None:
        raise error
