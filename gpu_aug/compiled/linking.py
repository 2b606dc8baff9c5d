"""Numba's parts for functions that only kernels call: their LLVM code becomes a part of each kernel, and is optimised there.

Numba would optimise such a function and make machine code for it alone, and again for every function that calls it. That took
a third of all compiling. The machine code of a function alone is never run.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc, unused-ignore]
    """The LLVM code of a function and of those that it calls, without machine code and optimised by its callers only."""

    def finalize(self) -> None:
        """Link the code of the functions that this one calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - Numba's interface
        """Return the null pointer, by which Numba means that Python cannot call the function."""
        return 0

    @property
    def codegen(self) -> Any:
        """This object: Numba calls its `set_env`, which does nothing."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: only a kernel has a place for the environment, and `CompiledFunctionCache.save_overload` sets it there."""


class LinkedCompiler(Compiler):  # type: ignore[misc, unused-ignore]
    """Numba's compiler with a `LinkedLibrary` for its result."""

    def define_pipelines(self) -> Any:
        """Return Numba's usual passes."""
        state = self.state
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return super().define_pipelines()
