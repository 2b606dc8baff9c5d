"""Reading MCUs: Huffman codes in, pixels of each component out. Blocks that nobody needs are only passed."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.feed import (
    BITS,
    BUFFER,
    ENDED,
    FILLED,
    MCU_BYTES,
    POSITION,
    PREDICTION,
    STATE_LENGTH,
    top_up,
)
from dali_pipes.jpeg.idct import OVERFLOW, invert_block, invert_corner, invert_flat
from dali_pipes.jpeg.idct_small import invert_small
from dali_pipes.jpeg.reasons import BAD_CODE, BAD_NUMBER, CUT_SHORT, GOOD
from dali_pipes.jpeg.symbols import pass_block, read_block, read_level, refill
from dali_pipes.jpeg.tables import FAST_BITS
from gpu_aug.compiled.jit import inlined, load_i64, separate, signed, store_i16, view_i64

# Places in a row of `blocks`, int64 [num_blocks, BLOCK_FIELDS], one for each block of an MCU.
COMPONENT, STEPS, LEVELS, PAIRS, HOPS = range(5)
"""Number of the component; addresses of quantisation steps and of the fast tables."""
DC_SEARCH, AC_SEARCH, DC_SYMBOLS, AC_SYMBOLS = range(5, 9)
"""Addresses of search tables and symbols."""
COLUMN, DOWN, ACROSS, FIRST, WANTED, OUT, STRIDE, SIDE = range(9, 17)
"""Block column and row in the MCU; block columns to an MCU; first block column that is wanted, and how many (0:
none); address where that one's pixels go, and bytes from one row of pixels to the next; side of a block in pixels."""
BLOCK_FIELDS = 17

_U3, _U63 = np.uint64(3), np.uint64(63)
_BLOCK_BITS = np.uint64(4 * FAST_BITS)


def _read_mcus(
    state_address: int, blocks_address: int, num_blocks: int, first: int, last: int, block: int
) -> int:
    """Read the MCUs of one row from column `first` up to `last`.

    Args:
        state_address: Address of int64 [STATE_LENGTH], see ``feed.py``.
        blocks_address: Address of int64 [num_blocks, BLOCK_FIELDS], see above.
        num_blocks: Blocks of an MCU.
        first: MCU column.
        last: The MCU column behind the last one.
        block: Address of int16 [64] that are zero, and are zero again afterwards, and more bytes.

    Returns:
        A status.
    """
    state = view_i64(state_address, (STATE_LENGTH,))
    blocks = view_i64(blocks_address, (num_blocks, BLOCK_FIELDS))
    buffer, bits = np.uint64(state[BUFFER]), np.uint64(state[BITS])
    position = state[POSITION]
    for column in range(first, last):
        if position > state[FILLED] - MCU_BYTES:
            if not state[ENDED]:
                state[POSITION] = position
                top_up(state)
                position = state[POSITION]
            if position - signed((bits & _U63) >> _U3) > state[FILLED]:
                return CUT_SHORT
        for entry in blocks:
            buffer, bits, position = refill(buffer, bits, position)
            buffer, bits, number, good = read_level(
                buffer, bits, entry[LEVELS], entry[DC_SEARCH], entry[DC_SYMBOLS]
            )
            if not good:
                return BAD_CODE
            if bits & _U63 < _BLOCK_BITS:
                buffer, bits, position = refill(buffer, bits, position)
            prediction = state[PREDICTION + entry[COMPONENT]] + number
            state[PREDICTION + entry[COMPONENT]] = prediction
            which = column * entry[ACROSS] + entry[COLUMN] - entry[FIRST]
            if 0 <= which < entry[WANTED]:
                store_i16(block, prediction)
                buffer, bits, position, depth = read_block(
                    buffer,
                    bits,
                    position,
                    entry[PAIRS],
                    entry[AC_SEARCH],
                    entry[AC_SYMBOLS],
                    block,
                )
                if depth < 0:
                    return BAD_CODE
                _invert(depth, block, entry, entry[OUT] + which * entry[SIDE])
            else:
                buffer, bits, position, depth = pass_block(
                    buffer, bits, position, entry[HOPS], entry[AC_SEARCH], entry[AC_SYMBOLS]
                )
                if depth < 0:
                    return BAD_CODE
    if load_i64(block + OVERFLOW) | load_i64(block + OVERFLOW + 8):
        return BAD_NUMBER
    state[BUFFER], state[BITS], state[POSITION] = signed(buffer), signed(bits & _U63), position
    return GOOD


@inlined
def _invert(depth: int, block: int, entry: Any, out: int) -> None:
    if entry[SIDE] != 8:
        invert_small(entry[SIDE], block, entry[STEPS], out, entry[STRIDE])
    elif depth == 0:
        invert_flat(block, entry[STEPS], out, entry[STRIDE])
    elif depth < 10:
        invert_corner(block, entry[STEPS], out, entry[STRIDE])
    else:
        invert_block(block, entry[STEPS], out, entry[STRIDE])


read_mcus = separate(_read_mcus)
"""`_read_mcus` for kernels."""
