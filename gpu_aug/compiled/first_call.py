"""Functions that are compiled when they are first called, in modules that are imported without Numba.

Importing Numba takes 0.3 s, which scripts that compile nothing should not pay in `import gpu_aug`.
"""

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Any


class CompiledAtFirstCall:
    """Like `gpu_aug.compiled.jit.kernel`, for a function that only Python code calls.

    Args:
        function: As `kernel` takes it. It must use no name of `gpu_aug.compiled.jit`, which imports Numba.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._kernel: Any = None
        self._lock = Lock()  # of two threads that call it first, one compiles
        update_wrapper(self, function)

    @property
    def kernel(self) -> Any:
        """The function that Numba compiles."""
        if self._kernel is None:
            from gpu_aug.compiled.jit import kernel

            with self._lock:
                if self._kernel is None:
                    self._kernel = kernel(self._function)
        return self._kernel

    def __call__(self, *arguments: Any) -> None:
        """Call the compiled function."""
        self.kernel(*arguments)
