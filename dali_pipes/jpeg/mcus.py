"""Reading MCUs: Huffman codes in, pixels of each component out. Blocks that nobody needs are only passed."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import MCU_BYTES, top_up
from dali_pipes.jpeg.huffman import pass_block, read_block, read_level, refill
from dali_pipes.jpeg.huffman_tables import FAST_BITS, MOST
from dali_pipes.jpeg.idct import invert_block, invert_corner, invert_flat
from dali_pipes.jpeg.idct_small import invert_small
from dali_pipes.jpeg.memory import MARGIN, Record, memory_at
from dali_pipes.jpeg.status import BAD_CODE, CUT_SHORT, GOOD
from gpu_aug.compiled.jit import inlined, kernel, separate, signed, store_i16

_U3, _U63 = np.uint64(3), np.uint64(63)
_BLOCK_BITS = np.uint64(4 * FAST_BITS)


@kernel
def list_blocks(memory: Record) -> None:
    """Describe each block of an MCU; none is wanted yet."""
    header, count = memory.header, 0
    for component in range(header.components):
        dc, ac = header.dc[component], header.ac[component]
        across, down = header.across[component], header.down[component]
        plane = memory.planes[component]
        for index in range(across * down):
            block = memory.blocks[count]
            block.component = component
            steps = memory.quant[header.quant[component]]
            block.steps, block.dc_step = signed(steps.ctypes.data), steps[0]
            block.levels = signed(memory.single[dc].ctypes.data)
            block.pairs = signed(memory.pairs[ac - 4].ctypes.data)
            block.hops = signed(memory.hops[ac - 4].ctypes.data)
            block.dc_search = signed(memory.search[dc].ctypes.data)
            block.ac_search = signed(memory.search[ac].ctypes.data)
            block.dc_symbols = signed(memory.huffman[dc].ctypes.data) + 16
            block.ac_symbols = signed(memory.huffman[ac].ctypes.data) + 16
            block.column, block.row = index % across, index // across
            block.across, block.first = across, plane.first_column
            block.stride, block.side = plane.row_bytes, plane.side
            block.wanted = 0
            count += 1
    memory.grid.num_blocks = count


@kernel
def aim_blocks(memory: Record, mcu_row: int) -> None:
    """Say which blocks of a row of MCUs are wanted, and where their pixels go."""
    for number in range(memory.grid.num_blocks):
        block = memory.blocks[number]
        plane = memory.planes[block.component]
        row = mcu_row * memory.header.down[block.component] + block.row
        block.wanted = 0
        if plane.first_row <= row <= plane.last_row:
            block.wanted = plane.last_column - plane.first_column + 1
        block.out = plane.pixels + (1 + block.row * plane.side) * plane.row_bytes + MARGIN


def _read_mcus(address: int, first: int, last: int) -> int:
    """Read the MCUs of one row from column `first` up to `last`.

    Args:
        address: Address of the memory; its coefficients are zero, and are zero again afterwards.
        first: MCU column.
        last: The MCU column behind the last one.

    Returns:
        A status.
    """
    memory = memory_at(address)
    feed, num_blocks, coefficients = (
        memory.feed,
        memory.grid.num_blocks,
        signed(memory.coefficients.ctypes.data),
    )
    buffer, bits = np.uint64(feed.buffer), np.uint64(feed.bits)
    position = feed.position
    for column in range(first, last):
        if position > feed.filled - MCU_BYTES:
            if not feed.ended:
                feed.position = position
                top_up(feed)
                position = feed.position
            if position - signed((bits & _U63) >> _U3) > feed.filled:
                return CUT_SHORT
        for number in range(num_blocks):
            block = memory.blocks[number]
            buffer, bits, position, good = _read_dc(buffer, bits, position, block, feed)
            if not good:
                return BAD_CODE
            which = column * block.across + block.column - block.first
            if 0 <= which < block.wanted:
                store_i16(coefficients, feed.prediction[block.component])
                buffer, bits, position, depth = read_block(
                    buffer, bits, position, block, coefficients
                )
                if depth >= 0:
                    _invert(depth, coefficients, block, block.out + which * block.side)
            else:
                buffer, bits, position, depth = pass_block(
                    buffer, bits, position, block, coefficients
                )
            if depth < 0:
                return BAD_CODE
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


@inlined
def _read_dc(buffer: Any, bits: Any, position: int, block: Record, feed: Record) -> Any:
    """Read the first coefficient into the feed's prediction, and be ready for the others."""
    buffer, bits, position = refill(buffer, bits, position)
    buffer, bits, number, good = read_level(buffer, bits, block)
    if bits & _U63 < _BLOCK_BITS:
        buffer, bits, position = refill(buffer, bits, position)
    level = feed.prediction[block.component] + number
    feed.prediction[block.component] = level
    feed.wide |= (level * block.dc_step + MOST + 1) & ~(2 * MOST + 1)
    return buffer, bits, position, good


@inlined
def _invert(depth: int, coefficients: int, block: Record, out: int) -> None:
    if block.side != 8:
        invert_small(block.side, coefficients, block.steps, out, block.stride)
    elif depth == 0:
        invert_flat(coefficients, block.steps, out, block.stride)
    elif depth < 10:
        invert_corner(coefficients, block.steps, out, block.stride)
    else:
        invert_block(coefficients, block.steps, out, block.stride)


read_mcus = separate(_read_mcus)
"""`_read_mcus` for kernels."""
