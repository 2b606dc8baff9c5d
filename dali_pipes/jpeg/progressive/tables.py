"""Huffman tables of progressive scans in a form for looking up codes together with what follows them.

As in ``dali_pipes/jpeg/huffman_tables.py`` an entry answers for the next FAST_BITS bits. Where the band of a block ends,
an entry also tells how many further blocks have nothing new.

    DC            as there
    first scans   int64   bits 0-5 length   8-15 advance to the first number (END: the band ends)   16-23 to the second one
                          24-31 further empty blocks   32-47 first number   48-63 second number
    refinement    int32   bits 0-5 length   8-11 zeros to pass   NEW, NEGATIVE, ENDS, LONG   16-31 further empty blocks

An entry that does not suffice (advance SLOW, or LONG) has the length of its code and, in place of the number or the empty
blocks, its symbol; or -1 and no length where the code is longer than FAST_BITS.

Source: ITU-T T.81, annexes C and G.1.2.
"""

from typing import Any

from dali_pipes.jpeg.huffman_tables import END, FAST_BITS, FAST_LENGTH, SLOW, fill
from dali_pipes.jpeg.progressive.memory import AC_FIRST, AC_REFINE, DC_FIRST, SEQUENTIAL, table_at
from dali_pipes.jpeg.status import BAD_TABLE, GOOD
from gpu_aug.compiled.jit import inlined, separate, signed

NEW, NEGATIVE, ENDS, LONG = 1 << 12, 1 << 13, 1 << 14, 1 << 15
"""Marks of an entry of a refinement: a new coefficient, which is negative; the band ends; the entry does not suffice."""

_MOST_RUN = 7  # bits of a number of empty blocks that fits an entry of a pair


def _build_table(address: int, kind: int, low: int) -> int:
    """Make the entries for a kind of scan out of a table as it is stored; returns a status.

    Args:
        address: Address of the table.
        kind: AC_FIRST, AC_REFINE or SEQUENTIAL for AC tables, DC_FIRST for DC tables.
        low: Bit position of what the scan brings; 0 for DC tables.
    """
    table = table_at(address)
    code, symbol_index, filled = 0, 0, 0
    for length in range(1, 17):
        count = signed(table.stored[length - 1])
        table.search[17 + length] = symbol_index - code
        if code + count >= 1 << length:  # no code may be all ones
            return BAD_TABLE
        for _ in range(count):
            symbol = signed(table.stored[16 + symbol_index])
            if kind == DC_FIRST and symbol > 15:
                return BAD_TABLE
            if length <= FAST_BITS:
                if kind == DC_FIRST:
                    filled = fill(table.single, filled, length, symbol, True)
                elif kind == AC_REFINE:
                    filled = _fill_refine(table.single, filled, length, symbol)
                else:
                    filled = _fill_first(table.single, filled, length, symbol, kind, low)
            code += 1
            symbol_index += 1
        table.search[length] = code << (16 - length)
        code <<= 1
    unknown = -1 << 16 | (LONG if kind == AC_REFINE else SLOW << 8)
    for index in range(filled, FAST_LENGTH):
        table.single[index] = unknown
    if kind in (AC_FIRST, SEQUENTIAL):
        _pair(table.single, table.pairs)
    return GOOD


@inlined
def _fill_first(single: Any, index: int, length: int, symbol: int, kind: int, low: int) -> int:
    """Write the entries of one code of a first scan, and return the index behind them."""
    run, size = symbol >> 4, symbol & 15
    advance, more = run + 1, size
    ends = size == 0 and run < 15
    if ends:
        advance, more = END, 0 if kind == SEQUENTIAL else run
    room = FAST_BITS - length
    if more > room or (ends and more > _MOST_RUN) or (size and size + low > 15):
        for _ in range(1 << room):
            single[index] = symbol << 16 | SLOW << 8 | length
            index += 1
        return index
    half, copies = (1 << more) >> 1, 1 << (room - more)
    for bits in range(1 << more):
        number = (1 << more) - 1 + bits
        if not ends:
            number = (bits if bits >= half else bits - (1 << more) + 1) << low
        for _ in range(copies):
            single[index] = number << 16 | advance << 8 | (length + more)
            index += 1
    return index


@inlined
def _fill_refine(single: Any, index: int, length: int, symbol: int) -> int:
    """Write the entries of one code of a refinement, and return the index behind them."""
    run, size = symbol >> 4, symbol & 15
    ends = size == 0 and run < 15
    more = run if ends else size
    room = FAST_BITS - length
    if more > room or size > 1:
        for _ in range(1 << room):
            single[index] = symbol << 16 | LONG | length
            index += 1
        return index
    for bits in range(1 << more):
        entry = run << 8 | (length + more)
        if ends:
            entry = ((1 << more) - 1 + bits) << 16 | ENDS | (length + more)
        elif size:
            entry |= NEW if bits else NEW | NEGATIVE
        for _ in range(1 << (room - more)):
            single[index] = entry
            index += 1
    return index


@inlined
def _pair(single: Any, pairs: Any) -> None:
    """Add to each symbol the one behind it, if all its bits are known."""
    for index in range(FAST_LENGTH):
        first = signed(single[index])
        length, advance, number = first & 63, first >> 8 & 255, first >> 16
        if advance == END:
            pairs[index] = number << 24 | END << 16 | END << 8 | length
            continue
        if advance == SLOW:
            pairs[index] = SLOW << 16 | SLOW << 8
            continue
        entry = number << 48 | (number & 0xFFFF) << 32 | advance << 16 | advance << 8 | length
        second = signed(single[index << length & (FAST_LENGTH - 1)])
        more, further, other = second & 63, second >> 8 & 255, second >> 16
        if length + more <= FAST_BITS and further < SLOW:
            entry = (number & 0xFFFF) << 32 | (advance + further) << 16 | advance << 8
            entry |= length + more
            entry |= other << 24 if further == END else other << 48
        pairs[index] = entry


build_table = separate(_build_table)
"""`_build_table` for kernels."""
