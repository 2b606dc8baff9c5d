"""Functions that are compiled at their first call, in modules that can be imported without Numba.

Importing Numba takes 0.3 s, which `import gpu_aug` should not cost scripts that compile nothing.
"""

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Any


class CompiledAtFirstCall:
    """A function that is compiled at its first call like by `gpu_aug.compiled.jit.kernel`; only Python code may call it.

    Args:
        function: Function to compile; see `kernel`. It must use no name of `gpu_aug.compiled.jit`, which imports Numba.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._kernel: Any = None
        self._lock = Lock()  # of two threads that call it first, one compiles
        update_wrapper(self, function)

    @property
    def kernel(self) -> Any:
        """The compiled function."""
        if self._kernel is None:
            from gpu_aug.compiled.jit import kernel

            with self._lock:
                if self._kernel is None:
                    self._kernel = kernel(self._function)
        return self._kernel

    def __call__(self, *arguments: Any) -> None:
        """Call the compiled function."""
        self.kernel(*arguments)
