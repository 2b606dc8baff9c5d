"""Errors made on purpose, which compute-sanitizer has to find: its negative controls. They need a GPU."""

import torch
import triton
import triton.language as tl

_FAR = 1 << 22  # values beside the only tensor there is

_RACE = r"""
extern "C" __global__ void planted_race(int* out) {
    __shared__ int shared[64];
    shared[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = shared[63 - threadIdx.x];
}
"""


@triton.jit  # type: ignore[untyped-decorator]
def write_one(pointer, offset) -> None:  # type: ignore[no-untyped-def]
    """Write one value at an offset."""
    tl.store(pointer + offset, 1.0)


def planted_write() -> None:
    """Write beside a tensor: an error for memcheck."""
    values = torch.zeros(4, device="cuda")
    write_one[1,](values, _FAR)
    torch.cuda.synchronize()


def planted_race() -> None:
    """Read what another warp writes, without a barrier: an error for racecheck."""
    import cupy

    kernel = cupy.RawKernel(_RACE, "planted_race")
    kernel((1,), (64,), (cupy.zeros(64, cupy.int32),))
    cupy.cuda.runtime.deviceSynchronize()
