"""Reading the scans of a progressive JPEG, one function per kind. Procedures as in ITU-T T.81, annex G.

All take the scan's stripped bytes, the offset of each restart interval and the end (int64 [intervals + 1]),
which blocks the scan visits, the Huffman codes, and the coefficients as the scans before left them, and return
False if the bytes are damaged.
"""

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.huffman_codes import Lookup
from dali_pipes.jpeg.tiling.scans import (
    BAD,
    Coefficients,
    Plan,
    block_of,
    extend,
    leading,
    peek,
    read_dc,
    spent,
    symbol_of,
)
from gpu_aug.compiled.jit import kernel, signed, unsigned


@kernel
def read_dc_first(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    plan: Plan,
    lookup: Lookup,
    blocks: Coefficients,
) -> bool:
    """Read the first scan of DC coefficients."""
    address = data.ctypes.data
    before = np.zeros(4, np.int64)
    for interval in range(starts.size - 1):
        bit, end = starts[interval] * 8, starts[interval + 1] * 8
        before[:] = 0
        begin = interval * plan.interval
        for unit in range(begin, min(begin + plan.interval, plan.units)):
            for part in range(plan.parts.shape[0]):
                for inner in range(plan.parts[part, 2] * plan.parts[part, 3]):
                    bit, value = read_dc(address, bit, plan.parts[part, 4], lookup, before[part])
                    if bit > end or not -32768 <= value << plan.low <= 32767:
                        return False
                    before[part] = value
                    blocks[block_of(plan, unit, part, inner), 0] = value << plan.low
        if not spent(bit, end):
            return False
    return True


@kernel
def read_dc_refine(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    plan: Plan,
    _lookup: Lookup,
    blocks: Coefficients,
) -> bool:
    """Read one more bit of each DC coefficient."""
    address = data.ctypes.data
    for interval in range(starts.size - 1):
        bit, end = starts[interval] * 8, starts[interval + 1] * 8
        begin = interval * plan.interval
        for unit in range(begin, min(begin + plan.interval, plan.units)):
            for part in range(plan.parts.shape[0]):
                for inner in range(plan.parts[part, 2] * plan.parts[part, 3]):
                    if bit >= end:
                        return False
                    more = leading(peek(address, bit), 1) << plan.low
                    blocks[block_of(plan, unit, part, inner), 0] |= more
                    bit += 1
        if not spent(bit, end):
            return False
    return True


@kernel
def read_ac_first(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    plan: Plan,
    lookup: Lookup,
    blocks: Coefficients,
) -> bool:
    """Read the first scan of a band of AC coefficients of one component."""
    address = data.ctypes.data
    for interval in range(starts.size - 1):
        bit, end = starts[interval] * 8, starts[interval + 1] * 8
        empty = 0  # how many further blocks have nothing
        begin = interval * plan.interval
        for unit in range(begin, min(begin + plan.interval, plan.units)):
            if empty:
                empty -= 1
                continue
            block = blocks[block_of(plan, unit, 0, 0)]
            bit, empty = _read_band(address, bit, plan, lookup, block)
            if bit > end:
                return False
        if empty or not spent(bit, end):
            return False
    return True


@kernel
def _read_band(
    address: int, bit: int, plan: Plan, lookup: Lookup, block: NDArray[np.int16]
) -> tuple[int, int]:
    """Read one block's band; returns the bit behind it and how many blocks with nothing follow."""
    at = plan.first
    while at <= plan.last:
        word = peek(address, bit)
        found = symbol_of(word, plan.parts[0, 5], lookup)
        length, run, size = found >> 8, found >> 4 & 15, found & 15
        if found == 0:
            return BAD, 0
        word <<= unsigned(length)
        bit += length
        if size:
            at += run
            value = extend(word, size) << plan.low
            if at > plan.last or not -32768 <= value <= 32767:
                return BAD, 0
            block[at] = value
            bit += size
            at += 1
        elif run == 15:
            at += 16
        else:
            return bit + run, (1 << run) - 1 + leading(word, run)
    return (bit if at == plan.last + 1 else BAD), 0


@kernel
def read_ac_refine(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    plan: Plan,
    lookup: Lookup,
    blocks: Coefficients,
) -> bool:
    """Read one more bit of each coefficient of a band of one component."""
    address = data.ctypes.data
    for interval in range(starts.size - 1):
        bit, end = starts[interval] * 8, starts[interval + 1] * 8
        empty = 0
        begin = interval * plan.interval
        for unit in range(begin, min(begin + plan.interval, plan.units)):
            block = blocks[block_of(plan, unit, 0, 0)]
            at = plan.first
            if empty:
                empty -= 1
            else:
                bit, at, empty = _refine_band(address, bit, plan, lookup, block)
            bit, at = _refine_run(address, bit, plan, block, at, 64)
            if bit > end:
                return False
        if empty or not spent(bit, end):
            return False
    return True


@kernel
def _refine_band(
    address: int, bit: int, plan: Plan, lookup: Lookup, block: NDArray[np.int16]
) -> tuple[int, int, int]:
    """Read new coefficients of one block and one more bit of those between them.

    Returns:
        The bit behind it, the coefficient at which new ones end, and how many blocks without new ones
        follow.
    """
    at = plan.first
    while at <= plan.last:
        word = peek(address, bit)
        found = symbol_of(word, plan.parts[0, 5], lookup)
        length, run, size = found >> 8, found >> 4 & 15, found & 15
        if found == 0 or size > 1:
            return BAD, 64, 0
        word <<= unsigned(length)
        bit += length
        if size == 0 and run < 15:
            return bit + run, at, (1 << run) - 1 + leading(word, run)
        bit += size
        bit, at = _refine_run(address, bit, plan, block, at, run)
        if at > plan.last:
            return BAD, 64, 0
        if size:
            block[at] = (1 if leading(word, 1) else -1) << plan.low
        at += 1
    return bit, at, 0


@kernel
def _refine_run(
    address: int, bit: int, plan: Plan, block: NDArray[np.int16], at: int, run: int
) -> tuple[int, int]:
    """Read a bit for each coefficient that is known already, up to the zero behind `run` zeros.

    Returns:
        The bit behind it, and that zero's number, or the number behind the band.
    """
    while at <= plan.last:
        value = signed(block[at])
        if value:
            if leading(peek(address, bit), 1) and not value >> plan.low & 1:
                block[at] = value + ((1 if value > 0 else -1) << plan.low)
            bit += 1
        elif run == 0:
            break
        else:
            run -= 1
        at += 1
    return bit, at
