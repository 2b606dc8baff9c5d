"""Huffman tables in the kernels' form: which of them a scan uses, and what the next bits of the scan mean."""

from typing import Any

from dali_pipes.decode.cuda_jpeg.records import LOOK_BITS, TABLES
from dali_pipes.jpeg.header import TABLE_BYTES, ZIGZAG
from dali_pipes.jpeg.status import BAD_TABLE, GOOD, NOT_SUPPORTED
from gpu_aug.compiled.jit import inlined, kernel, load_i64, record_at, signed

_tables_at = record_at(TABLES)
_WORDS = TABLE_BYTES // 8


@kernel
def choose_tables(header: Any, chosen: Any) -> int:
    """Find the tables of a scan: at most two for DC and two for AC.

    Args:
        header: The memory's header.
        chosen: int64 [4], written: the numbers of the tables in the header, two for DC and two for AC; equal ones where
            the scan uses one.

    Returns:
        A status.
    """
    chosen[:] = -1
    for component in range(header.components):
        for first, number in ((0, header.dc[component]), (2, header.ac[component])):
            if chosen[first] < 0:
                chosen[first] = number
            elif chosen[first] != number and chosen[first + 1] < 0:
                chosen[first + 1] = number
            elif chosen[first] != number and chosen[first + 1] != number:
                return NOT_SUPPORTED
    for place in (1, 3):
        if chosen[place] < 0:
            chosen[place] = chosen[place - 1]
    return GOOD


@kernel
def find_tables(memory: Any, chosen: Any, known: Any, num_known: int) -> int:
    """The number of tables that are equal to those of a scan, or -1.

    Args:
        memory: Has the tables of the scan as they are stored.
        chosen: As `choose_tables` wrote it.
        known: uint8 [..., 4, TABLE_BYTES]: tables as they were stored.
        num_known: How many are known; the last ones are looked at first.
    """
    for number in range(num_known - 1, -1, -1):
        equal = True
        for place in range(4):
            mine = signed(memory.huffman[chosen[place]].ctypes.data)
            other = signed(known[number, place].ctypes.data)
            for word in range(_WORDS):
                if load_i64(mine + 8 * word) != load_i64(other + 8 * word):
                    equal = False
                    break
            if not equal:
                break
        if equal:
            return number
    return -1


@kernel
def write_tables(memory: Any, chosen: Any, target: int) -> int:
    """Write the tables of a scan in the kernels' form to an address; returns a status."""
    tables = _tables_at(target)
    for place in range(4):
        stored = memory.huffman[chosen[place]]
        status = _write(stored, place < 2, tables.look[place], tables.bound[place], tables.offset[place])  # fmt: skip
        if status != GOOD:
            return status
        for symbol in range(256):
            tables.symbols[place, symbol] = stored[16 + symbol]
    for index in range(64):
        tables.zigzag[index] = ZIGZAG[index]
    return GOOD


@inlined
def _write(stored: Any, is_dc: bool, look: Any, bound: Any, offset: Any) -> int:
    code, symbol_index, filled = 0, 0, 0
    bound[0] = offset[0] = 0
    for length in range(1, 17):
        count = signed(stored[length - 1])
        offset[length] = symbol_index - code
        if code + count >= 1 << length:  # no code may be all ones
            return BAD_TABLE
        for _ in range(count):
            symbol = signed(stored[16 + symbol_index])
            if is_dc and symbol > 15:
                return BAD_TABLE
            if length <= LOOK_BITS:
                for _ in range(1 << (LOOK_BITS - length)):
                    look[filled] = symbol << 8 | length
                    filled += 1
            code += 1
            symbol_index += 1
        bound[length] = code << (16 - length)
        code <<= 1
    for index in range(filled, 1 << LOOK_BITS):
        look[index] = 0
    return GOOD
