"""Programs on the CPU."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.fused.compile.program import Program, Stage
from gpu_aug.engines.fused.cpu import lines
from gpu_aug.engines.fused.cpu.passes import SPARE_BYTES, is_plain, run, run_plain

DTYPES = {
    torch.uint8: lines.UINT8,
    torch.float16: lines.FLOAT16,
    torch.bfloat16: lines.BFLOAT16,
    torch.float32: lines.FLOAT32,
}
"""What the kernels call the types that they write."""

# Scratch of each thread: new memory would be cleared by the system each time.
_KEPT = threading.local()


def run_program(
    program: Program,
    images: Tensor | Sequence[Tensor],
    others: Sequence[Tensor | None] | None,
    outs: Tensor | Sequence[Tensor],
) -> None:
    """Carry out a program; see ``program``. It takes one call of compiled code, without Python's lock.

    A tensor is the same as the sequence of its rows.
    """
    sources = _sources(images)
    seconds = sources if others is None else _others(others)
    top_left = program.view[:, :2]
    if top_left.any():
        sources[:, 0] += top_left[:, 0] * sources[:, 2]
        sources[:, 0] += top_left[:, 1] * np.where(sources[:, 1], 12, 3)
    sources[:, 3:] = program.view[:, 2:]
    carry_out = run_plain if is_plain(program) else run
    carry_out(program, sources, seconds, _targets(outs), DTYPES[outs[0].dtype], _memory(program))


def run_single(
    program: Program,
    view: Sequence[int],
    image: NDArray[np.uint8],
    out: NDArray[Any],
    dtype: int,
) -> None:
    """Carry out the program of one image without a second one; the same as `run_program`, with less around it.

    Args:
        program: Of one image.
        view: Its view: top, left, height and width.
        image: uint8 [h, w, 3], pixels side by side.
        out: [h', w', 3] of any strides.
        dtype: Of DTYPES.
    """
    top, left, height, width = view
    row = image.strides[0]
    address = image.ctypes.data + top * row + 3 * left
    sources = np.array([[address, 0, row, height, width]], np.int64)
    down, along, across = (stride // out.itemsize for stride in out.strides)
    outs = np.array([[out.ctypes.data, across, down, along]], np.int64)
    carry_out = run_plain if is_plain(program) else run
    carry_out(program, sources, sources, outs, dtype, _memory(program))


def _sources(images: Tensor | Sequence[Tensor]) -> NDArray[np.int64]:
    """Describe images [h, w, 3] as ``sampling`` wants them, int64 [B, 5]."""
    if not isinstance(images, Tensor):
        return np.array([_describe(image) for image in images], np.int64)
    described = np.empty((len(images), 5), np.int64)
    described[:] = _describe(images[0])
    described[:, 0] += np.arange(len(images)) * (images.stride(0) * images.element_size())
    return described


def _describe(image: Tensor) -> tuple[int, ...]:
    row = image.stride(0) * image.element_size()
    return image.data_ptr(), image.dtype == torch.float32, row, *image.shape[:2]


def _targets(outs: Tensor | Sequence[Tensor]) -> NDArray[np.int64]:
    """Describe results [3, h, w] as ``passes`` wants them, int64 [B, 4]."""
    if not isinstance(outs, Tensor):
        return np.array([(out.data_ptr(), *out.stride()) for out in outs], np.int64)
    first = outs[0]
    described = np.empty((len(outs), 4), np.int64)
    described[:] = (first.data_ptr(), *first.stride())
    described[:, 0] += np.arange(len(outs)) * (outs.stride(0) * outs.element_size())
    return described


def _others(images: Sequence[Tensor | None]) -> NDArray[np.int64]:
    described = np.zeros((len(images), 5), np.int64)
    there = [row for row, image in enumerate(images) if image is not None]
    if there:
        described[there] = _sources([image for image in images if image is not None])
    return described


def _memory(program: Program) -> NDArray[np.uint8]:
    """Return scratch for a program, which the thread keeps."""
    height, width = program.size.max(axis=0).tolist()
    keeps = (program.codes == Stage.CONTRAST).any()
    needed = 12 * width * (height if keeps else 1) + SPARE_BYTES * width
    memory: Any = getattr(_KEPT, "memory", None)
    if memory is None or len(memory) < needed:
        memory = _KEPT.memory = np.empty(needed, np.uint8)
    result: NDArray[np.uint8] = memory
    return result
