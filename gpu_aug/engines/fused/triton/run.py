"""Functions that carry out programs on a GPU.

A pass takes one upload and one kernel launch, and one more launch for each round of contrast stages, which need a mean.
Nothing here waits for the device.
"""

from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from gpu_aug.engines.fused.addresses import Images
from gpu_aug.engines.fused.compile.program import Program
from gpu_aug.engines.fused.triton import kernels
from gpu_aug.engines.fused.triton.record import (
    HAS_EXACT,
    HAS_FLOATS,
    HAS_HOLES,
    HAS_MIX,
    HAS_RARE,
    Packed,
    pack,
)

# Triton's names of the types of results.
_TYPES = {
    torch.uint8: tl.uint8,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
    torch.float32: tl.float32,
}

_HEAVY = HAS_EXACT | HAS_MIX | HAS_HOLES | HAS_RARE
"""With one of these a thread has only half of the pixels, else it would need too many registers; its stores are half as wide."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """How an image is split into tiles, and the resources for each. Results do not depend on it but for rounding of the mean.

    Attributes:
        height: Height of a tile, in pixels; a power of 2 up to ANCHOR.
        width: Width of a tile, in pixels; a power of 2 up to ANCHOR.
        num_warps: Number of warps of 32 threads for each tile.
        num_registers: Largest number of registers of a thread; None lets the compiler choose.
        tiles_per_sum: Number of tiles that one Triton program sums for the mean.
    """

    height: int = 16
    width: int = 32
    num_warps: int = 4
    num_registers: int | None = None
    tiles_per_sum: int = 4

    @classmethod
    def of(cls, features: int) -> "Tiling":
        """Return the tiling of `run_pass` for a batch with these features; `sum_gray` uses the default tiling."""
        # With fewer registers than the compiler would take more threads run at once, and none spills.
        if features & _HEAVY:
            return cls(num_registers=128)
        return cls(height=32, num_registers=128 if features & HAS_FLOATS else 80)


def run_program(
    program: Program,
    images: Images,
    others: Images | None,
    outs: Images,
    *,
    tiling: Tiling | None = None,
) -> None:
    """Carry out a program on the device of the results, on its current stream.

    Args:
        program: A program of B images, B up to 65535.
        images: Source images [B, h, w, 3], or B tensors [h, w, 3]: uint8 or float32, with strides (any, 3, 1).
        others: Second source images of the results' sizes, or None; single ones may be None for images without a mix.
        outs: Results [B, 3, h', w'], or B tensors [3, h', w'] of one dtype: uint8, float16, bfloat16 or float32.
        tiling: How images are split into tiles; None chooses what suits the batch.
    """
    num = len(program.codes)
    if num == 0 or not program.size.all():
        return
    first = outs if isinstance(outs, Tensor) else outs[0]
    assert first is not None
    packed = pack(program, images, others, outs)
    layout, num_contrasts, features = packed.layout, packed.num_contrasts, packed.features
    there = packed.words.to(first.device, non_blocking=True)
    words = there[: packed.tables_start]
    tables = there[packed.tables_start :].view(torch.float32)
    of_sums, of_pass = tiling or Tiling(), tiling or Tiling.of(features)
    sizes = (program.size if (program.size != program.size[0]).any() else program.size[:1]).tolist()
    num_parts = -(-_num_tiles(sizes, of_sums) // of_sums.tiles_per_sum)
    sums = torch.empty(max(num_contrasts, 1) * num * num_parts, device=first.device)
    arguments = (
        *(words, words.view(torch.float32), words.view(torch.float64), words.view(torch.int64)),
        *(tables, sums),
        *(layout.length, layout.codes, layout.values, layout.holes, layout.colours, layout.keys),
        program.tables[0].size,
    )
    constants: dict[str, Any] = {"FEATURES": features}
    with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
        for number in range(num_contrasts):
            numbers = (layout.contrasts, number, num, num_parts)
            kernels.sum_gray[num_parts, num](
                *arguments, *numbers, TILES=of_sums.tiles_per_sum, **constants, **options(of_sums)
            )
        constants |= {"TYPE": _TYPES[first.dtype], "LAYOUT": _layout(packed)}
        kernels.run_pass[_num_tiles(sizes, of_pass), num](
            *arguments, program.codes.shape[1], num, num_parts, **constants, **options(of_pass)
        )


def options(tiling: Tiling) -> dict[str, Any]:
    """Return the keyword arguments of a kernel launch for a tiling."""
    return {
        "TILE_HEIGHT": tiling.height,
        "TILE_WIDTH": tiling.width,
        "num_warps": tiling.num_warps,
        "maxnreg": tiling.num_registers,
        # Each variant of a kernel would fuse other products and sums, and an image depend on its batch.
        "enable_fp_fusion": False,
    }


def _num_tiles(sizes: list[list[int]], tiling: Tiling) -> int:
    """Return the number of tiles of the image with the most tiles."""
    return max(-(-height // tiling.height) * -(-width // tiling.width) for height, width in sizes)


def _layout(packed: Packed) -> int:
    """Return the memory layout constant of the kernels that fits all results."""
    if packed.is_aligned and packed.is_interleaved:
        return int(kernels.INTERLEAVED.value)
    if packed.is_aligned and packed.is_planar:
        return int(kernels.PLANAR.value)
    return int(kernels.GENERIC.value)
