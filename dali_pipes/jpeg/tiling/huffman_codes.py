"""Huffman codes of a JPEG: tables for reading them, and the best codes for writing.

Layout as in ITU-T T.81, annexes C, F and K. Tables are numbered 0 to 7: four for DC, then four for AC.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.segments import DHT, Untiled, write_segment
from gpu_aug.compiled.jit import kernel

LOOKUP_BITS = 10

Count = NDArray[np.int64]
"""int64 [257]: how often each symbol occurs."""


class Lookup(NamedTuple):
    """Codes of all tables, for reading.

    Attributes:
        short: uint16 [8, 1024]: for the next ten bits length << 8 | symbol, 0 where the code is longer.
        last: int64 [8, 17]: largest code of each length, -1 for none.
        offset: int64 [8, 17]: what leads from a code of a length to its symbol.
        symbols: uint8 [8, 256] in the order of the codes.
    """

    short: NDArray[np.uint16]
    last: NDArray[np.int64]
    offset: NDArray[np.int64]
    symbols: NDArray[np.uint8]


class Codes(NamedTuple):
    """Codes of all tables, for writing.

    Attributes:
        code: uint32 [8, 256] by symbol.
        length: uint8 [8, 256]: bits of each code, 0 where the symbol has none.
    """

    code: NDArray[np.uint32]
    length: NDArray[np.uint8]


def empty_lookup() -> Lookup:
    """Return tables without a code."""
    return Lookup(
        np.zeros((8, 1 << LOOKUP_BITS), np.uint16),
        np.full((8, 17), -1, np.int64),
        np.zeros((8, 17), np.int64),
        np.zeros((8, 256), np.uint8),
    )


def empty_codes() -> Codes:
    """Return tables without a code."""
    return Codes(np.zeros((8, 256), np.uint32), np.zeros((8, 256), np.uint8))


def define_tables(body: bytes, lookup: Lookup) -> set[int]:
    """Read the tables of a DHT segment; returns their numbers.

    Raises:
        Untiled: If they cannot be.
    """
    at = 0
    defined = set()
    while at < len(body):
        counts = np.frombuffer(body[at + 1 : at + 17].ljust(16, b"\0"), np.uint8)
        total = int(counts.sum())
        if body[at] & 0xEF > 3 or total > 256 or at + 17 + total > len(body):
            raise Untiled("odd tables")
        table = (body[at] >> 4) * 4 + (body[at] & 3)
        symbols = np.frombuffer(body[at + 17 : at + 17 + total], np.uint8)
        if table < 4 and total and symbols.max() > 15:
            raise Untiled("odd tables")
        lookup.symbols[table] = 0
        lookup.symbols[table, :total] = symbols
        if not _fill(counts.astype(np.int64), table, lookup):
            raise Untiled("odd tables")
        defined.add(table)
        at += 17 + total
    return defined


def write_tables(counts: Count, used: Sequence[int]) -> tuple[bytes, Codes]:
    """Make the shortest codes for what is to be written.

    Args:
        counts: int64 [8, 257]: how often each symbol of each table occurs; column 256 is scratch.
        used: Numbers of the tables that are wanted.

    Returns:
        The DHT segment, and the codes.
    """
    codes = empty_codes()
    body = b""
    for table in used:
        lengths = optimal_lengths(counts[table])
        symbols = np.lexsort((np.arange(256), lengths[:256]))[-np.count_nonzero(lengths[:256]) :]
        per_length = np.bincount(lengths[symbols], minlength=17)[1:]
        _assign(symbols, lengths, codes.code[table])
        codes.length[table] = lengths[:256]
        body += bytes([(table >> 2) << 4 | table & 3, *per_length, *symbols])
    return write_segment(DHT, body), codes


def optimal_lengths(count: Count) -> NDArray[np.int64]:
    """Return the length of each symbol's code, int64 [257], 1 to 16 bits, 0 for symbols that do not occur.

    Huffman's method with the limit of 16 bits enforced as in annex K.2. A symbol 256 that never
    occurs takes the code of ones only, which JPEG forbids.
    """
    frequency = count.copy()
    frequency[256] = 1
    if not frequency[:256].any():
        frequency[0] = 1  # a table must have a symbol
    depth = np.zeros(257, np.int64)
    _merge(frequency, depth)
    per_length = np.bincount(depth, minlength=258)
    per_length[0] = 0
    for length in range(len(per_length) - 1, 16, -1):
        while per_length[length]:
            shorter = length - 2
            while not per_length[shorter]:
                shorter -= 1
            per_length[length] -= 2
            per_length[length - 1] += 1
            per_length[shorter + 1] += 2
            per_length[shorter] -= 1
    order = np.lexsort((np.arange(257), -np.where(depth > 0, count, -1)))
    order = order[depth[order] > 0]
    order = np.append(order[order != 256], 256)  # the longest code is the forbidden one
    lengths = np.zeros(257, np.int64)
    lengths[order] = np.repeat(np.arange(17), per_length[:17])
    lengths[256] = 0
    return lengths


@kernel
def _merge(frequency: Count, depth: NDArray[np.int64]) -> None:
    """Join the two rarest trees until one is left; `depth` counts how often each symbol was joined."""
    tree = np.arange(257)
    while True:
        rare, next_rare = -1, -1
        for at in range(257):
            if frequency[at] == 0:
                continue
            if rare < 0 or frequency[at] <= frequency[rare]:
                rare, next_rare = at, rare
            elif next_rare < 0 or frequency[at] <= frequency[next_rare]:
                next_rare = at
        if next_rare < 0:
            return
        frequency[rare] += frequency[next_rare]
        frequency[next_rare] = 0
        for symbol in range(257):
            if tree[symbol] == next_rare:
                tree[symbol] = rare
            if tree[symbol] == rare:
                depth[symbol] += 1


@kernel
def _assign(
    symbols: NDArray[np.int64], lengths: NDArray[np.int64], code: NDArray[np.uint32]
) -> None:
    value = 0
    length = 0
    for symbol in symbols:
        value <<= lengths[symbol] - length
        length = lengths[symbol]
        code[symbol] = value
        value += 1


@kernel
def _fill(counts: NDArray[np.int64], table: int, lookup: Lookup) -> bool:
    """Number the codes of a table and enter them; False if they do not fit into their lengths."""
    lookup.short[table] = 0
    code, index = 0, 0
    for length in range(1, 17):
        lookup.offset[table, length] = index - code
        if code + counts[length - 1] >= 1 << length:  # no code may be all ones
            return False
        for _ in range(counts[length - 1]):
            if length <= LOOKUP_BITS:
                free = LOOKUP_BITS - length
                entry = length << 8 | lookup.symbols[table, index]
                lookup.short[table, code << free : (code + 1) << free] = entry
            code += 1
            index += 1
        lookup.last[table, length] = code - 1 if counts[length - 1] else -1
        code <<= 1
    return True
