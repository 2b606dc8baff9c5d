"""Fused passes on a GPU: one upload and one launch per pass, and one more launch where contrast needs a mean.

Nothing here waits for the device.
"""

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.engines.fused.compile.program import Program
from gpu_aug.engines.fused.triton import kernels
from gpu_aug.engines.fused.triton.record import OUT, OUT_STRIDES, Images, pack

_TYPES = {
    torch.uint8: tl.uint8,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32,
}

_LEAST_PARTS = 32
"""Kernels are compiled for each power of 2 from here on; up to 256x256 pixels all images share one."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the work is cut; all of it changes speed alone.

    Attributes:
        height: Height of a tile, in pixels; a power of 2.
        width: Width of a tile, in pixels; a power of 2.
        num_warps: Warps of 32 threads for each tile.
        tiles_per_sum: Tiles that one program sums for the mean.
        num_registers: Most that a thread may use; None leaves that to the compiler.
    """

    height: int = 16
    width: int = 32
    num_warps: int = 4
    tiles_per_sum: int = 4
    num_registers: int | None = None


def run_program(
    program: Program,
    images: Images,
    others: Images | None,
    outs: Images,
    *,
    tiling: Tiling = Tiling(),
) -> None:
    """Carry out a pass on the device where the results lie, on its current stream.

    Args:
        program: Of B images, B up to 65535.
        images: [B, h, w, 3], or B tensors [h, w, 3]: uint8 or float32, of strides (any, 3, 1).
        others: The same or None, of the results' sizes; single ones may be None where they have no mix.
        outs: [B, 3, h', w'], or B tensors [3, h', w'] of one dtype: uint8, float16, bfloat16 or float32.
        tiling: How the work is cut.
    """
    num = len(program.codes)
    if num == 0 or not program.size.all():
        return
    first = outs[0]
    assert first is not None
    records, layout, num_contrasts = pack(program, images, others, outs)
    words, tables = _upload(records, program.tables, first.device)
    num_tiles = _num_tiles(program.size, tiling)
    num_parts = -(-num_tiles // tiling.tiles_per_sum)
    sums = torch.empty(max(num_contrasts, 1) * num * num_parts, device=first.device)
    arguments = (
        *(words, words.view(torch.float32), words.view(torch.float64), words.view(torch.int64)),
        *(tables, sums),
        *(layout.length, layout.codes, layout.values, layout.holes, layout.colours, layout.keys),
        program.tables[0].size,
    )
    shape = {
        "PARTS": max(triton.next_power_of_2(num_parts), _LEAST_PARTS),
        "TILE_HEIGHT": tiling.height,
        "TILE_WIDTH": tiling.width,
        "num_warps": tiling.num_warps,
        "maxnreg": tiling.num_registers,
        "enable_fp_fusion": True,  # said aloud: the default changes with Triton 3.10
    }
    with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
        for number in range(num_contrasts):
            numbers = (layout.contrasts, number, num, num_parts)
            kernels.sum_gray[num_parts, num](
                *arguments, *numbers, TILES=tiling.tiles_per_sum, **shape
            )
        store = {"TYPE": _TYPES[first.dtype], "LAYOUT": _layout(records, first.itemsize)}
        kernels.run_pass[num_tiles, num](
            *arguments, program.codes.shape[1], num, num_parts, **store, **shape
        )


def _num_tiles(size: NDArray[np.int32], tiling: Tiling) -> int:
    """How many tiles the largest image has."""
    return int((-(-size[:, 0] // tiling.height) * -(-size[:, 1] // tiling.width)).max())


def _upload(
    records: NDArray[np.int32], tables: NDArray[np.float32], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Copy both in one piece: int32 and float32 tensors of one dimension."""
    # Triton compiles kernels anew for tables that do not begin at a multiple of 16 bytes.
    num_words = records.size + -records.size % 4
    both = torch.empty(num_words + tables.size, dtype=torch.int32, pin_memory=device.type == "cuda")
    both.numpy()[: records.size] = records.reshape(-1)
    both.numpy()[num_words:] = tables.reshape(-1).view(np.int32)
    # Torch gives pinned memory out again only after the copy that reads it.
    there = both.to(device, non_blocking=True)
    return there[:num_words], there[num_words:].view(torch.float32)


def _layout(records: NDArray[np.int32], itemsize: int) -> int:
    """Which of the kernels' layouts all results have."""
    by_channel, by_row, by_column = records[:, OUT_STRIDES : OUT_STRIDES + 3].T
    if (by_channel == 1).all() and (by_column == 3).all():
        return int(kernels.INTERLEAVED.value)
    starts = records[:, OUT].astype(np.int64)
    offsets = np.stack([starts, by_channel * itemsize, by_row * itemsize])
    if (by_column == 1).all() and not (offsets % 16).any():
        return int(kernels.PLANAR.value)
    return int(kernels.GENERIC.value)
