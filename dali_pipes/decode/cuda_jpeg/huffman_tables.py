"""Huffman tables in the kernels' format: select those of a scan, and reuse equal tables of earlier images."""

from typing import Any

from dali_pipes.decode.cuda_jpeg.records import TABLES
from dali_pipes.jpeg.huffman import ZIGZAG
from dali_pipes.jpeg.huffman_tables import (
    AC_LOOK,
    DC_LOOK,
    FAST_LENGTH,
    TABLE_BYTES,
    build_table,
    store_table,
)
from dali_pipes.jpeg.status import GOOD, NOT_SUPPORTED
from gpu_aug.compiled.jit import inner, load_i64, record_at, signed

_tables_at = record_at(TABLES)
_WORDS = TABLE_BYTES // 8


@inner
def choose_tables(header: Any, chosen: Any) -> int:
    """Select the Huffman tables of a scan: at most two for DC and two for AC.

    Args:
        header: The parsed header.
        chosen: int64 [4], written: indices of the tables in the header, two for DC, then two for AC; both indices are
            equal if the scan uses one table.

    Returns:
        A status of `dali_pipes.jpeg.status`.
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


@inner
def find_tables(memory: Any, chosen: Any, known: Any, num_known: int) -> int:
    """Return the index of the set of known tables that equals the tables of a scan, or -1 if none does.

    Args:
        memory: The decoder's memory with the tables of the scan, as stored.
        chosen: The output of `choose_tables`.
        known: uint8 [..., 4, TABLE_BYTES], tables as stored.
        num_known: Count of known sets of tables; the last sets are compared first.
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


@inner
def write_tables(memory: Any, chosen: Any, target: int) -> int:
    """Write the tables of a scan in the kernels' format to an address and return a status."""
    tables = _tables_at(target)
    for place in range(4):
        table, stored = memory.tables[place], memory.huffman[chosen[place]]
        store_table(table, stored)
        kind = DC_LOOK if place < 2 else AC_LOOK
        status = signed(build_table(signed(table.pairs.ctypes.data), kind, 0))
        if status != GOOD:
            return status
        for index in range(FAST_LENGTH):
            tables.look[place, index] = table.single[index]
        tables.bound[place, 0] = tables.offset[place, 0] = 0
        for length in range(1, 17):
            tables.bound[place, length] = table.search[length]
            tables.offset[place, length] = table.search[17 + length]
        for symbol in range(256):
            tables.symbols[place, symbol] = stored[16 + symbol]
    for index in range(64):
        tables.zigzag[index] = ZIGZAG[index]
    return GOOD
