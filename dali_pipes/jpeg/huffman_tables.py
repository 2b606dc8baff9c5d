"""Huffman tables in the form in which scans are read: one lookup decodes several symbols.

An entry describes the next bits of the scan: FAST_BITS of them, or HOP_BITS for `codes` and `hops`. It has the number
of bits to consume, and the advance of the coefficient (run + 1; END if the block or its band ends; SLOW if the entry does
not suffice). The bits of the entry's last number may lie beyond those that the entry describes. They are the last bits
to consume; a mask has as many ones as the number has bits.

    DC           int32   bits 0-5 length   8-15 zero or SLOW   16-31 mask
    AC, codes    uint16  bits 0-5 length of the code alone   8-15 symbol
    AC, pairs    int64   bits 0-5 length   8-15 advance to the first number   16-23 to the second one, or to the only one
                         24-31 further empty blocks   32-47 first of two numbers   48-63 mask of the last number
    AC, hops     uint16  bits 0-5 length   8-15 advance over up to three symbols
    refinement   int32   bits 0-5 length   8-11 zeros to pass   NEW, NEGATIVE, ENDS, LONG   16-31 further empty blocks
    look         int32   bits 0-7 length   8-15 symbol   (for the CUDA kernels)

A SLOW entry has no length. A LONG one has the length of its code, and its symbol in place of the empty blocks; -1 and no
length if the code is longer than FAST_BITS.

Source: ITU-T T.81, annexes C, F.2.2 and G.1.2.
"""

from typing import Any

import numpy as np

from dali_pipes.jpeg.status import BAD_TABLE, GOOD
from gpu_aug.compiled.jit import inlined, inner, record_at, separate, signed

FAST_BITS = 10
"""9 and 11 bits were slower; see DECISIONS.md, "The CPU JPEG decoder"."""

FAST_LENGTH = 1 << FAST_BITS
"""Entries per form. With 10 bits, the forms that the scan of a photograph reads (two of each but refinement) take 32
kB."""

HOP_BITS = 11
"""12 bits pass codes in 0.95 of the time, but take twice as long to build, which costs more where each file has tables
of its own."""

HOP_LENGTH = 1 << HOP_BITS
"""Entries of `hops`, which take 4 kB per table."""

ENTRIES_AHEAD, MOST_BITS = 3, 18
"""Entries of `pairs` or `hops` that are read before more bits are read ahead, and the most bits that each of them
consumes: 54 of the at least 56 bits that are read ahead. With 4 entries of 14 bits, 7 % of the numbers of photographs of high
quality would not fit in an entry."""

END, SLOW = 128, 192
"""Advances that no run reaches: a run advances by at most 16, two runs by at most 32."""

NEW, NEGATIVE, ENDS, LONG = 1 << 12, 1 << 13, 1 << 14, 1 << 15
"""Flags of a refinement's entry: a new coefficient; it is negative; the band ends; the entry does not suffice."""

DC_FIRST, DC_REFINE, AC_FIRST, AC_REFINE, SEQUENTIAL, DC_LOOK, AC_LOOK = range(7)
"""The kinds of scans, and of the tables for them. DC tables are DC_FIRST in every scan; those of CUDA kernels are
DC_LOOK and AC_LOOK."""

MOST = (1 << 13) - 1
"""The largest number in the first row of a block, after dequantisation, that the transform supports; the smallest is
-MOST - 1."""

TABLE_BYTES = 16 + 256
"""A Huffman table as stored: 16 counts, then the symbols."""

SEARCH_LENGTH = 34
"""Length of the search table. It holds for each code length an upper bound of the next 16 bits (the last code of that
length plus one, followed by zeros), then the number that turns a code into its symbol's index."""

_MOST_SIZE = 8  # bits of the largest number that a hop passes; larger ones are rare
_IN_HOP = 3  # symbols; a fourth one saves 1 % of the look-ups
_MOST_RUN = 7  # bits of the number of empty blocks in an entry of a pair

TABLE = np.dtype(
    [
        ("pairs", np.int64, (FAST_LENGTH,)),
        ("single", np.int32, (FAST_LENGTH,)),
        ("codes", np.uint16, (HOP_LENGTH,)),
        ("hops", np.uint16, (HOP_LENGTH,)),
        ("search", np.int32, (SEARCH_LENGTH,)),
        ("stored", np.uint8, (TABLE_BYTES,)),
        ("is_ready", np.int64),
        ("harmless", np.int64),
    ]
)
"""A Huffman table.

pairs, single, codes, hops, search: Its forms. `single` has DC, refinement or look entries; pairs and hops are made from
`codes`.
stored: The table as stored in the file; files of one encoder usually share their tables.
is_ready: 1 if the forms belong to `stored`, else 0.
harmless: Bits of the largest number that entries of `hops` pass; -1 if `hops` is not made."""

table_at = record_at(TABLE)
"""The table at an address, for kernels."""


def _build_table(address: int, kind: int, low: int) -> int:
    """Build, in place, the lookup arrays that one kind of scan needs from a stored Huffman table.

    The array `hops` is built by `build_tables`.

    Args:
        address: Address of the TABLE.
        kind: DC_FIRST, AC_FIRST, AC_REFINE, SEQUENTIAL, DC_LOOK or AC_LOOK.
        low: Bit position of the numbers that the scan brings; 0 except for AC_FIRST.

    Returns:
        A status: BAD_TABLE if there are too many codes, or a DC number of more than 15 bits.
    """
    table = table_at(address)
    is_dc = kind in (DC_FIRST, DC_LOOK)
    code, symbol_index, filled = 0, 0, 0
    for length in range(1, 17):
        count = signed(table.stored[length - 1])
        table.search[17 + length] = symbol_index - code
        if code + count >= 1 << length:  # the standard reserves the code of all ones
            return BAD_TABLE
        for _ in range(count):
            symbol = signed(table.stored[16 + symbol_index])
            if is_dc and symbol > 15:
                return BAD_TABLE
            if kind in (AC_FIRST, SEQUENTIAL):
                for _ in range(1 << HOP_BITS >> length):
                    table.codes[filled] = symbol << 8 | length
                    filled += 1
            elif length <= FAST_BITS:
                filled = _fill(table.single, filled, length, symbol, kind)
            code += 1
            symbol_index += 1
        table.search[length] = code << (16 - length)
        code <<= 1
    if kind in (AC_FIRST, SEQUENTIAL):
        for index in range(filled, HOP_LENGTH):
            table.codes[index] = HOP_BITS + 1  # a code that no index has completely
        _pair(table.codes, table.pairs, kind == AC_FIRST, low)
        return GOOD
    unknown = -1 << 16 | (LONG if kind == AC_REFINE else SLOW << 8)
    if kind >= DC_LOOK:
        unknown = 0
    for index in range(filled, FAST_LENGTH):
        table.single[index] = unknown
    return GOOD


@inlined
def _fill(single: Any, index: int, length: int, symbol: int, kind: int) -> int:
    """Write the entries of one code, and return the index after them."""
    run, size, room = symbol >> 4, symbol & 15, FAST_BITS - length
    entry, more = symbol << 8 | length, 0  # `more`: bits after the code that choose the entry
    ends, fits = size == 0 and run < 15, False
    if kind == DC_FIRST:
        entry = ((1 << size) - 1) << 16 | (length + size)
    elif kind == AC_REFINE:
        entry, more = symbol << 16 | LONG | length, run if ends else size
        fits = more <= room and size <= 1
        if not fits:
            more = 0
    for bits in range(1 << more):
        if fits:
            entry = _refining(run, size, more, bits, ends) | (length + more)
        for _ in range(1 << (room - more)):
            single[index] = entry
            index += 1
    return index


@inlined
def _refining(run: int, size: int, more: int, bits: int, ends: bool) -> int:
    """Return the table entry of a code of a refinement scan, given the bits after the code."""
    if ends:
        return ((1 << more) - 1 + bits) << 16 | ENDS
    sign = 0 if bits else NEGATIVE
    return run << 8 | (NEW | sign if size else 0)


@inlined
def _pair(codes: Any, pairs: Any, has_runs: bool, low: int) -> None:
    """Make `pairs`: each entry has one symbol, or two if its bits show the first number and the second code."""
    for index in range(FAST_LENGTH):
        entry, used, advance, number = SLOW << 16 | SLOW << 8, 0, 0, 0
        for _ in range(2):
            code = signed(codes[index << used << (HOP_BITS - FAST_BITS) & (HOP_LENGTH - 1)])
            length, size, run = code & 63, code >> 8 & 15, code >> 12
            known = FAST_BITS - used - length  # bits of the index after this code
            ends = size == 0 and run < 15
            more = run if ends and has_runs else size
            if known < 0 or used + length + more > MOST_BITS or size + low > 15:
                break
            if ends and more > min(known, _MOST_RUN):
                break
            used += length + more
            bits = index >> max(known - more, 0) & ((1 << more) - 1)
            step = END if ends else run + 1
            entry = (((1 << more) - 1 + bits) << 24) if ends else ((1 << more) - 1) << 48
            entry |= number << 32 | (advance + step) << 16 | used
            entry |= (advance if advance > 0 else step) << 8
            if ends or more > known:
                break
            number = bits if bits >= (1 << more) >> 1 else bits - (1 << more) + 1
            number = number << low & 0xFFFF
            advance = step
        pairs[index] = entry


build_table = separate(_build_table)
"""`_build_table` for kernels."""


@inner
def build_tables(memory: Any) -> int:
    """Build all lookup arrays of the tables of a single sequential scan that are not ready yet; return a status."""
    header = memory.header
    for number in range(8):
        used = False
        for component in range(header.components):
            used |= header.dc[component] == number or header.ac[component] == number
        if used:
            status = _make_ready(memory, number)
            if status != GOOD:
                return status
    return GOOD


@inlined
def _make_ready(memory: Any, number: int) -> int:
    table, stored = memory.tables[number], memory.huffman[number]
    if table.is_ready == 0 or not _are_equal(stored, table.stored):
        table.is_ready, table.harmless = 0, -1
        store_table(table, stored)
        kind = DC_FIRST if number < 4 else SEQUENTIAL
        status = signed(build_table(signed(table.pairs.ctypes.data), kind, 0))
        if status != GOOD:
            return status
        table.is_ready = 1
    if number >= 4:
        harmless = _harmless(memory, number)
        if harmless != table.harmless:
            _join(table.codes, table.hops, harmless)
            table.harmless = harmless
    return GOOD


@inlined
def store_table(table: Any, stored: Any) -> None:
    """Copy a table as stored in the file to a TABLE."""
    # No assignment of slices: Numba would compile an error for different lengths, with its text, for 1.5 s.
    for index in range(TABLE_BYTES):
        table.stored[index] = stored[index]


@inlined
def _are_equal(stored: Any, other: Any) -> bool:
    """Return whether two tables are equal; bytes after their symbols are ignored."""
    length, different = signed(16), signed(0)
    for index in range(16):
        length += signed(stored[index])
        different |= signed(stored[index] ^ other[index])
    for index in range(16, length):
        different |= signed(stored[index] ^ other[index])
    return different == 0


@inlined
def _harmless(memory: Any, number: int) -> int:
    """Return the size in bits of numbers that are in range in every block that uses the AC table with index `number`."""
    header, step, size = memory.header, 1, _MOST_SIZE
    for component in range(header.components):
        if header.ac[component] == number:
            for column in range(8):
                step = max(step, signed(memory.quant[header.quant[component], column]))
    while ((1 << size) - 1) * step > MOST:
        size -= 1
    return signed(size)


@inlined
def _join(codes: Any, hops: Any, harmless: int) -> None:
    """Make `hops` from `codes`: join symbols whose codes are known. Numbers that may be out of range get SLOW."""
    for index in range(HOP_LENGTH):
        length, advance = 0, 0
        for _ in range(_IN_HOP):
            code = signed(codes[index << length & (HOP_LENGTH - 1)])
            size, run = code >> 8 & 15, code >> 12
            step = END if size == 0 and run < 15 else run + 1
            fits = length + (code & 63) <= HOP_BITS and length + (code & 63) + size <= MOST_BITS
            if fits and size <= harmless and advance + (step & 127) < 63:
                length += (code & 63) + size
                advance += step
        hops[index] = advance << 8 | length if advance > 0 else SLOW << 8
