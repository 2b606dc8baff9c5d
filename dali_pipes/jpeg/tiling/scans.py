"""What all kinds of scans of a JPEG have in common: which blocks they visit, and how bits are read.

A scan's bytes are first copied without stuffing, all restart intervals one after the other. A `bit` of them is
counted from the first one. Functions that read a scan stay inside their arrays whatever the bytes are, and return False
where libjpeg would warn: a code that is none, too few bits, whole bytes left over.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.huffman_codes import LOOKUP_BITS, Lookup
from gpu_aug.compiled.jit import inlined, kernel, load_be64, signed, unsigned

SPARE = 512
"""Bytes behind the last one that may be read: a block has at most 64 codes of 16 bits and 16 bits each."""

BAD = 1 << 62
"""A bit behind every end, for what cannot be read."""

Coefficients = NDArray[np.int16]
"""int16 [number of blocks, 64], each block in zigzag order."""


class Plan(NamedTuple):
    """What a scan visits: unit by unit in rows, in a unit component by component, block by block.

    Attributes:
        units: How many units there are.
        per_row: Units in a row.
        interval: Units in a restart interval.
        parts: int64 [components, 6]: first block of the component, blocks in a row of it, blocks of a unit
            across and down, numbers of the DC and the AC table (0 to 7).
        first: First coefficient.
        last: Last coefficient.
        low: Bit position of what the scan brings.
    """

    units: int
    per_row: int
    interval: int
    parts: NDArray[np.int64]
    first: int
    last: int
    low: int


@kernel
def strip(
    data: NDArray[np.uint8], at: int, clean: NDArray[np.uint8], starts: NDArray[np.int64]
) -> int:
    """Copy a scan's bytes without stuffing and restart markers.

    Args:
        data: The file.
        at: Offset of the scan's first byte.
        clean: For the result, as long as the file and `SPARE` bytes more, which become zeros.
        starts: For the offset in `clean` of each restart interval and of the end; its length says how
            many are expected.

    Returns:
        The offset of the marker that ends the scan; -1 if there is none, -2 if restart markers are
        missing, superfluous or wrongly numbered, or if fill bytes stand before a stuffed zero, which libjpeg
        reads as data or as the end, depending on where it is.
    """
    size = data.size
    out = 0
    num_intervals = 1
    starts[0] = 0
    while at < size:
        value = data[at]
        at += 1
        if value == 0xFF:
            first = at
            while at < size and data[at] == 0xFF:
                at += 1
            if at >= size:
                return -1
            marker = data[at]
            if marker == 0 and at > first:
                return -2
            at += 1
            if 0xD0 <= marker <= 0xD7:
                if num_intervals >= starts.size - 1 or marker - 0xD0 != (num_intervals - 1) % 8:
                    return -2
                starts[num_intervals] = out
                num_intervals += 1
                continue
            if marker != 0:
                starts[num_intervals] = out
                clean[out : out + SPARE] = 0
                return at - 2 if num_intervals == starts.size - 1 else -2
        clean[out] = value
        out += 1
    return -1


@inlined
def peek(address: int, bit: int) -> int:
    """At least 57 bits from one of them on, unsigned, leftmost first."""
    return load_be64(address + (bit >> 3)) << unsigned(bit & 7)  # type: ignore[no-any-return]


@inlined
def symbol_of(word: int, table: int, lookup: Lookup) -> int:
    """Length << 8 | symbol of the code at the left of a word, 0 where there is none."""
    found = signed(lookup.short[table, signed(word >> unsigned(64 - LOOKUP_BITS))])
    return found if found else _long_symbol(word, table, lookup)


@kernel
def _long_symbol(word: int, table: int, lookup: Lookup) -> int:
    bits = signed(word >> unsigned(48))
    for length in range(LOOKUP_BITS + 1, 17):
        code = bits >> (16 - length)
        if code <= lookup.last[table, length]:
            index = code + lookup.offset[table, length]
            return length << 8 | signed(lookup.symbols[table, index & 255])
    return 0


@inlined
def extend(word: int, size: int) -> int:
    """The signed number that the `size` >= 1 leftmost bits stand for."""
    value = signed(word >> unsigned(64 - size))
    return value if value >> (size - 1) else value - (1 << size) + 1


@inlined
def leading(word: int, count: int) -> int:
    """The `count` leftmost bits as a number, 0 for none."""
    return signed(word >> unsigned(1) >> unsigned(63 - count))


@inlined
def spent(bit: int, end: int) -> bool:
    """Whether an interval's bits were used up but for the padding of the last byte."""
    return end - 8 < bit <= end


@inlined
def block_of(plan: Plan, unit: int, part: int, inner: int) -> int:
    """Number of a block: the `inner`-th of a component in a unit."""
    first, stride = plan.parts[part, 0], plan.parts[part, 1]
    across, down = plan.parts[part, 2], plan.parts[part, 3]
    row = unit // plan.per_row * down + inner // across
    return signed(first + row * stride + unit % plan.per_row * across + inner % across)


@kernel
def read_dc(address: int, bit: int, table: int, lookup: Lookup, before: int) -> tuple[int, int]:
    """Read a DC difference; returns the bit behind it and its sum with the value before."""
    word = peek(address, bit)
    found = symbol_of(word, table, lookup)
    if found == 0:
        return BAD, signed(0)
    length, size = found >> 8, found & 15
    if size:
        before += extend(word << unsigned(length), size)
    return bit + length + size, before
