"""Functions that carry out programs on CPU tensors and arrays."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.fused.addresses import describe_images, describe_outs
from gpu_aug.engines.fused.compile.program import Program, Stage
from gpu_aug.engines.fused.cpu import lines
from gpu_aug.engines.fused.cpu.memory import CACHE_LINE
from gpu_aug.engines.fused.cpu.passes import SPARE_BYTES, TABLES_BYTES, is_plain, run, run_plain

DTYPES = {
    torch.uint8: lines.UINT8,
    torch.float16: lines.FLOAT16,
    torch.bfloat16: lines.BFLOAT16,
    torch.float32: lines.FLOAT32,
}
"""What the kernels call the types that they write."""

# Results of this size go past the cache. Below 10 to 19 MB, reading them at once takes longer then (measured on an Intel
# CPU), and cores of AMD share a cache of 16 or 32 MB.
_STREAMED_BYTES = 1 << 24

# Scratch of each thread: new memory would be cleared by the system each time.
_KEPT = threading.local()


def run_program(
    program: Program,
    images: Tensor | Sequence[Tensor],
    others: Sequence[Tensor | None] | None,
    outs: Tensor | Sequence[Tensor],
) -> None:
    """Carry out a program and write the results to ``outs``; see ``program``, "Kernels", for the arguments.

    This is one call of compiled code, which releases the GIL. A tensor stands for the sequence of its rows.
    """
    sources = describe_images(images)
    seconds = sources if others is None else describe_images(others)
    dtype = DTYPES[(outs if isinstance(outs, Tensor) else outs[0]).dtype]
    carry_out = run_plain if is_plain(program) else run
    height, width = program.size.max(axis=0).tolist()
    memory = _memory(height, width, keeps_lines=bool((program.codes == Stage.CONTRAST).any()))
    described, is_streamed = describe_outs(outs), isinstance(outs, Tensor) and _streams(outs)
    carry_out(program, sources, seconds, described, dtype, memory, is_streamed)


def needs_of(program: Program) -> list[tuple[bool, bool]]:
    """Return what `run_single` must know of the program of each image, found for all at once.

    It is whether the program `is_plain`, and whether it keeps all lines of the result in memory, as a contrast does.
    """
    plain = (program.kind == 0) & (program.mix == 0) & (program.codes <= Stage.HUE).all(axis=1)
    keeps = (program.codes == Stage.CONTRAST).any(axis=1)
    return [*zip(plain.tolist(), keeps.tolist(), strict=True)]


def run_single(
    program: Program,
    image: NDArray[np.uint8],
    out: NDArray[Any],
    dtype: int,
    needs: tuple[bool, bool],
) -> None:
    """Carry out the program of one image that is not mixed, with less overhead than `run_program`.

    Args:
        program: A program of one image.
        image: The image, uint8 [h, w, 3], contiguous within each row.
        out: The result [h', w', 3], with any strides.
        dtype: Dtype of the result, a value of DTYPES.
        needs: The entry of the program in `needs_of`.
    """
    # Assigned to a row, which takes half the time of an array made of a list.
    sources, outs = np.empty((1, 5), np.int64), np.empty((1, 4), np.int64)
    sources[0] = image.ctypes.data, 0, image.strides[0], *image.shape[:2]
    down, along, across = out.strides
    item = out.itemsize
    outs[0] = out.ctypes.data, across // item, down // item, along // item
    carry_out = run_plain if needs[0] else run
    memory = _memory(*out.shape[:2], keeps_lines=needs[1])
    carry_out(program, sources, sources, outs, dtype, memory, False)


def _streams(outs: Tensor) -> bool:
    """Return whether results are large enough to go past the cache, and consist of lines of full cache lines."""
    is_packed = outs.is_contiguous(memory_format=torch.channels_last)
    line_bytes = outs.shape[3] * outs.itemsize * (3 if is_packed else 1)
    is_whole = (outs.data_ptr() | line_bytes) % CACHE_LINE == 0
    return is_whole and outs.nbytes >= _STREAMED_BYTES and (is_packed or outs.is_contiguous())


def _memory(height: int, width: int, *, keeps_lines: bool) -> NDArray[np.uint8]:
    """Return scratch memory that is large enough for results of up to this size; each thread keeps its own."""
    needed = TABLES_BYTES + (12 * (height if keeps_lines else 1) + SPARE_BYTES) * width
    memory: Any = getattr(_KEPT, "memory", None)
    if memory is None or len(memory) < needed:
        memory = _KEPT.memory = np.empty(needed, np.uint8)
    result: NDArray[np.uint8] = memory
    return result
