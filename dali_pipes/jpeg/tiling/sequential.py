"""Reading the scan of a sequential JPEG. Procedures as in ITU-T T.81, annex F."""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.huffman_codes import Lookup
from dali_pipes.jpeg.tiling.scans import (
    BAD,
    Coefficients,
    Plan,
    block_of,
    extend,
    peek,
    read_dc,
    spent,
    symbol_of,
)
from gpu_aug.compiled.jit import kernel, unsigned


@kernel
def read_sequential(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    plan: Plan,
    lookup: Lookup,
    blocks: Coefficients,
) -> bool:
    """Read all coefficients of a scan's components.

    Args:
        data: Stripped bytes.
        starts: int64 [intervals + 1]: offset of each restart interval, and the end.
        plan: Which blocks the scan visits.
        lookup: Huffman codes.
        blocks: Zeros, for the result.

    Returns:
        False if the bytes are damaged.
    """
    address = data.ctypes.data
    before = np.zeros(4, np.int64)
    for interval in range(starts.size - 1):
        bit, end = starts[interval] * 8, starts[interval + 1] * 8
        before[:] = 0
        begin = interval * plan.interval
        for unit in range(begin, min(begin + plan.interval, plan.units)):
            for part in range(plan.parts.shape[0]):
                for inner in range(plan.parts[part, 2] * plan.parts[part, 3]):
                    block = blocks[block_of(plan, unit, part, inner)]
                    bit, value = read_dc(address, bit, plan.parts[part, 4], lookup, before[part])
                    if bit > end or not -32768 <= value <= 32767:
                        return False
                    before[part] = value
                    block[0] = value
                    bit = _read_ac(address, bit, plan.parts[part, 5], lookup, block)
                    if bit > end:
                        return False
        if not spent(bit, end):
            return False
    return True


@kernel
def _read_ac(address: int, bit: int, table: int, lookup: Lookup, block: NDArray[np.int16]) -> int:
    """Read coefficients 1 to 63 of a block; returns the bit behind them."""
    at = 1
    while at < 64:
        word = peek(address, bit)
        found = symbol_of(word, table, lookup)
        length, run, size = found >> 8, found >> 4 & 15, found & 15
        bit += length + size
        if size:
            at += run
            if at > 63:
                return BAD
            block[at] = extend(word << unsigned(length), size)
            at += 1
        elif found == 0:
            return BAD
        elif run < 15:
            return bit
        else:
            at += 16
    return bit if at == 64 else BAD
