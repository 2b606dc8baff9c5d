"""Read MCUs: from Huffman codes to the pixels of each component. Blocks outside the crop are only skipped."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import prepare_mcu
from dali_pipes.jpeg.huffman import BYTE_OFFSETS, pass_block, read_band, read_level, refill
from dali_pipes.jpeg.huffman_tables import END, MOST
from dali_pipes.jpeg.idct import invert
from dali_pipes.jpeg.memory import MARGIN, Record, memory_at
from dali_pipes.jpeg.status import BAD_CODE, CUT_SHORT, GOOD
from gpu_aug.compiled.jit import inlined, inner, separate, signed, store_i16

_U63 = np.uint64(63)
# `before`, `last` and `low` of read_band for all AC coefficients of a block.
_BEFORE, _LAST, _LOWEST = signed(0), signed(63), signed(0)


@inlined
def place_block(block: Any, component: int, index: int, across: int) -> None:
    """Set the position in the MCU of a block record: block `index` of a component with `across` blocks per row."""
    block.component, block.across = component, across
    block.column, block.row = index % across, index // across


@inlined
def set_dc_table(block: Any, table: Any) -> None:
    """Set the DC table with which a block is read."""
    block.levels = signed(table.single.ctypes.data)
    block.dc_search = signed(table.search.ctypes.data)
    block.dc_symbols = signed(table.stored.ctypes.data) + 16


@inlined
def set_ac_table(block: Any, table: Any, is_refinement: bool) -> None:
    """Set the AC table with which a block is read."""
    entries = table.single.ctypes.data if is_refinement else table.pairs.ctypes.data
    block.pairs, block.hops = signed(entries), signed(table.hops.ctypes.data)
    block.ac_search = signed(table.search.ctypes.data)
    block.ac_symbols = signed(table.stored.ctypes.data) + 16


@inner
def list_blocks(memory: Record) -> None:
    """Write the record of each block of an MCU; `aim_blocks` marks later which blocks are needed."""
    header, count = memory.header, 0
    for component in range(header.components):
        plane, steps = memory.planes[component], memory.quant[header.quant[component]]
        across = header.across[component]
        for index in range(across * header.down[component]):
            block = memory.blocks[count]
            place_block(block, component, index, across)
            set_dc_table(block, memory.tables[header.dc[component]])
            set_ac_table(block, memory.tables[header.ac[component]], False)
            block.steps, block.dc_step = signed(steps.ctypes.data), steps[0]
            block.first, block.wanted = plane.first_column, 0
            block.stride, block.side = plane.row_bytes, plane.side
            count += 1
    memory.grid.num_blocks = count


@inner
def aim_blocks(memory: Record, mcu_row: int) -> None:
    """Set which blocks of a row of MCUs are needed, and the output addresses of their pixels."""
    for number in range(memory.grid.num_blocks):
        block = memory.blocks[number]
        plane = memory.planes[block.component]
        row = mcu_row * memory.header.down[block.component] + block.row
        block.wanted = 0
        if plane.first_row <= row <= plane.last_row:
            block.wanted = plane.last_column - plane.first_column + 1
        block.out = plane.pixels + (1 + block.row * plane.side) * plane.row_bytes + MARGIN


def _read_mcus(address: int, first: int, last: int) -> int:
    """Read the MCUs of one row from column `first` to `last` (exclusive).

    Args:
        address: Address of the memory; its coefficients are zero before and after the call.
        first: MCU column.
        last: The MCU column after the last one.

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
        position, is_there = prepare_mcu(feed, bits, position)
        if not is_there:
            return CUT_SHORT
        for number in range(num_blocks):
            block = memory.blocks[number]
            buffer, bits, position, good = _read_dc(buffer, bits, position, block, feed)
            if not good:
                return BAD_CODE
            which = column * block.across + block.column - block.first
            if 0 <= which < block.wanted:
                store_i16(coefficients, feed.prediction[block.component])
                buffer, bits, position, _, last, _ = read_band(
                    buffer, bits, position, block, coefficients, BYTE_OFFSETS, _BEFORE, _LAST,
                    _LOWEST, False,
                )  # fmt: skip
                depth = 63 if last == 63 else last - END
                if depth >= 0:
                    out = block.out + which * block.side
                    invert(block.side, depth, coefficients, block.steps, out, block.stride)
            else:
                buffer, bits, position, last = pass_block(
                    buffer, bits, position, block, coefficients
                )
            if last != 63 and last < END:
                return BAD_CODE
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


@inlined
def _read_dc(buffer: Any, bits: Any, position: int, block: Record, feed: Record) -> Any:
    """Read a block's first coefficient into the feed's prediction, and read ahead the bits for the others."""
    buffer, bits, position = refill(buffer, bits, position)
    buffer, bits, number, good = read_level(buffer, bits, block)
    buffer, bits, position = refill(buffer, bits, position)
    level = feed.prediction[block.component] + number
    feed.prediction[block.component] = level
    feed.wide |= (level * block.dc_step + MOST + 1) & ~(2 * MOST + 1)
    return buffer, bits, position, good


read_mcus = separate(_read_mcus)
"""`_read_mcus` for kernels."""
