"""Open profiler ranges around the stages, for torch.profiler and, by NVTX, for Nsight Systems.

``nsys`` sets NVTX_INJECTION64_PATH for the programs that it starts, as the NVTX documentation says. ``GPU_AUG_NVTX=1``
requests ranges without it, and ``GPU_AUG_NVTX=0`` switches them off.
"""

import os
import warnings
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch.autograd import profiler

_PREFIX = "gpu_aug"
_nvtx: Any = torch.cuda.nvtx

# Tells whether torch profiles anywhere in the process; torch.autograd._profiler_enabled only knows about its own thread.
# If a torch version lacks the private name, its profiles have no ranges of ours.
_profiler: Any = (
    profiler
    if hasattr(profiler, "_is_profiler_enabled")
    else SimpleNamespace(_is_profiler_enabled=False)
)


class Range:
    """A named profiler range; the thread that opened it must call `close`, in reverse order of opening."""

    __slots__ = ("_recorded", "_with_nvtx")

    def __init__(self, name: str, *, with_nvtx: bool) -> None:
        self._recorded: Any = None
        self._with_nvtx = with_nvtx
        if with_nvtx:
            _nvtx.range_push(f"{_PREFIX} {name}")
        if _profiler._is_profiler_enabled:
            self._recorded = torch.profiler.record_function(f"{_PREFIX} {name}")
            self._recorded.__enter__()

    def close(self) -> None:
        """End the range."""
        if self._recorded is not None:
            self._recorded.__exit__(None, None, None)
        if self._with_nvtx:
            _nvtx.range_pop()


def open_range(name: str) -> Range | None:
    """Open and return a range if a profiler runs; else return None, within 0.1 us."""
    if nvtx_is_wanted() or _profiler._is_profiler_enabled:
        return Range(name, with_nvtx=nvtx_is_wanted())
    return None


@cache
def nvtx_is_wanted() -> bool:
    """Return whether NVTX ranges are made; the first call decides.

    Warns:
        UserWarning: They are requested but this torch has no NVTX; or GPU_AUG_NVTX is neither 0 nor 1.
    """
    value = os.environ.get("GPU_AUG_NVTX", "")
    if value not in ("", "0", "1"):
        warnings.warn(
            f"GPU_AUG_NVTX={value!r} is not known and is left alone; allowed are 0 and 1",
            UserWarning,
            stacklevel=2,
        )
        value = ""
    if value == "0" or not (value or os.environ.get("NVTX_INJECTION64_PATH")):
        return False
    try:
        _nvtx.range_push(_PREFIX)
        _nvtx.range_pop()
    except RuntimeError as error:
        warnings.warn(
            f"there are no NVTX ranges of the loader's stages, since this torch has none ({error}): install one for CUDA",
            UserWarning,
            stacklevel=2,
        )
        return False
    return True
