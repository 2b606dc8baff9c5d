"""Huffman tables in a form for looking up several symbols at once.

Each answers for the next FAST_BITS bits of the scan. An entry says by how many bits to go on, by how far the
coefficient advances (run + 1; END where the block ends; SLOW where the table does not suffice), and
the numbers behind the codes, where those fit as well.

    DC    int32   bits 0-5 length   8-15 zero or SLOW   16-31 number
    AC    int64   bits 0-5 length   8-15 advance to the first number   16-23 to the second one
                  32-47 first number   48-63 second number (a single one stands twice)
    hops  int32   bits 0-5 length   8-15 advance over as many symbols as fit   16-31 nothing

In an entry with SLOW the length is that of the code alone, or zero where the code is longer than FAST_BITS, and in
place of the number stands the symbol, or -1.

Source: ITU-T T.81, annexes C and F.2.2.
"""

from typing import Any

from dali_pipes.jpeg.status import BAD_TABLE, GOOD
from gpu_aug.compiled.jit import inlined, kernel, signed

FAST_BITS = 10
FAST_LENGTH = 1 << FAST_BITS
END, SLOW = 128, 192

MOST = (1 << 13) - 1
"""The largest number in the first row of a block, after dequantisation, that the transform takes; the least is -MOST - 1."""

_MOST_IN_ENTRY = (1 << FAST_BITS - 1) - 1  # behind a code of one bit

SEARCH_LENGTH = 34
"""Length of the search table, int32: first for each length of code the bound that the next 16 bits stay below (one more
than the last code of that length, followed by zeros), then what added to the code gives its symbol's index."""


@kernel
def build_tables(memory: Any) -> int:
    """Make the tables that a scan uses out of the memory's huffman, where they are not there yet; returns a status."""
    header = memory.header
    for number in range(8):
        used = False
        for component in range(header.components):
            used |= header.dc[component] == number or header.ac[component] == number
        if used:
            status = _make_table(memory, number)
            if status != GOOD:
                return status
    return GOOD


@inlined
def _make_table(memory: Any, number: int) -> int:
    stored, single, made = memory.huffman[number], memory.single[number], memory.made[number]
    if made.is_there == 0 or not _are_equal(stored, made.stored):
        made.is_there, made.harmless = 0, -1
        status = _build(stored, number < 4, single, memory.search[number])
        if status != GOOD:
            return status
        if number >= 4:
            _pair(single, memory.pairs[number - 4])
        made.stored[:] = stored
        made.is_there = 1
    if number >= 4:
        harmless = _harmless(memory, number)
        if harmless != made.harmless:
            _join(single, memory.hops[number - 4], harmless)
            made.harmless = harmless
    return GOOD


@inlined
def _are_equal(stored: Any, other: Any) -> bool:
    """Whether two tables are the same; what stands behind their symbols does not count."""
    length, different = signed(16), signed(0)
    for index in range(16):
        length += signed(stored[index])
        different |= signed(stored[index] ^ other[index])
    for index in range(16, length):
        different |= signed(stored[index] ^ other[index])
    return different == 0


@inlined
def _build(stored: Any, is_dc: bool, single: Any, search: Any) -> int:
    code, symbol_index, filled = 0, 0, 0
    for length in range(1, 17):
        count = signed(stored[length - 1])
        search[17 + length] = symbol_index - code
        if code + count >= 1 << length:  # no code may be all ones
            return BAD_TABLE
        for _ in range(count):
            symbol = signed(stored[16 + symbol_index])
            if is_dc and symbol > 15:
                return BAD_TABLE
            if length <= FAST_BITS:
                filled = fill(single, filled, length, symbol, is_dc)
            code += 1
            symbol_index += 1
        search[length] = code << (16 - length)
        code <<= 1
    for index in range(filled, FAST_LENGTH):
        single[index] = -1 << 16 | SLOW << 8
    return GOOD


@inlined
def fill(single: Any, index: int, length: int, symbol: int, is_dc: bool) -> int:
    """Write the entries of single symbols that one code has, and return the index behind them."""
    room = FAST_BITS - length
    size, advance = symbol & 15, (symbol >> 4) + 1
    if is_dc:
        advance = 0
    elif size == 0 and advance < 16:
        advance = END
    if size > room:
        for _ in range(1 << room):
            single[index] = symbol << 16 | SLOW << 8 | length
            index += 1
        return index
    half, copies = (1 << size) >> 1, 1 << (room - size)
    for bits in range(1 << size):
        number = bits if bits >= half else bits - (1 << size) + 1
        for _ in range(copies):
            single[index] = number << 16 | advance << 8 | (length + size)
            index += 1
    return index


@inlined
def _pair(single: Any, pairs: Any) -> None:
    """Add to each symbol the one behind it, if all its bits are known."""
    for index in range(FAST_LENGTH):
        first = signed(single[index])
        length, advance = first & 63, first >> 8 & 255
        number = first >> 16 & 0xFFFF
        entry = number << 48 | number << 32 | advance << 16 | advance << 8 | length
        if advance < END:
            second = signed(single[index << length & (FAST_LENGTH - 1)])
            more, further = second & 63, second >> 8 & 255
            if length + more <= FAST_BITS and further < SLOW:
                entry = (second >> 16) << 48 | number << 32 | (advance + further) << 16
                entry |= advance << 8 | (length + more)
        pairs[index] = entry


@inlined
def _harmless(memory: Any, number: int) -> int:
    """The largest number of an entry that is in range in whatever block an AC table is used for."""
    header, step = memory.header, 1
    for component in range(header.components):
        if header.ac[component] == number:
            for column in range(8):
                step = max(step, signed(memory.quant[header.quant[component], column]))
    return signed(min(MOST // step, _MOST_IN_ENTRY))


@inlined
def _join(source: Any, joined: Any, harmless: int) -> None:
    """Add to the symbols of each entry those behind it, if all their bits are known; numbers that may do harm are SLOW."""
    for index in range(FAST_LENGTH):
        first = signed(source[index])
        length, advance = first & 63, first >> 8 & 255
        if advance < SLOW and abs(first >> 16) > harmless:
            first = SLOW << 8
        elif advance < END:
            second = signed(source[index << length & (FAST_LENGTH - 1)])
            more, further = second & 63, second >> 8 & 255
            fits = length + more <= FAST_BITS and further < SLOW and abs(second >> 16) <= harmless
            if fits and advance + (further & 127) < 63:
                first = (advance + further) << 8 | (length + more)
        joined[index] = first
