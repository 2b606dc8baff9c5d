"""Writing coefficients as one baseline scan with restart markers, without touching their values.

Coefficients are first turned into symbols and counted, so that the scan can then be written with the
shortest codes there are for this picture. Procedures as in ITU-T T.81, annex F.
"""

import struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.tiling.coefficients import Picture
from dali_pipes.jpeg.tiling.huffman_codes import Codes, write_tables
from dali_pipes.jpeg.tiling.scans import Coefficients
from dali_pipes.jpeg.tiling.segments import DRI, SOS, Untiled, write_segment
from gpu_aug.compiled.jit import has_ff, inlined, kernel, signed, store_be64, unsigned

Symbols = NDArray[np.uint32]
"""uint32 [number of symbols]: table << 24 | symbol << 16 | further bits, whose number the symbol says."""

_FURTHER = np.arange(256) & 15


class Scan(NamedTuple):
    """A scan that can be written.

    Attributes:
        interval: Units between restart markers.
        symbols: What is to be written, in order.
        starts: int64 [intervals + 1]: where in `symbols` each interval begins, and the end.
        tables: The DHT segment.
        codes: The same tables.
        bits: How many bits the symbols take.
    """

    interval: int
    symbols: Symbols
    starts: NDArray[np.int64]
    tables: bytes
    codes: Codes
    bits: int

    @property
    def num_bytes(self) -> int:
        """About how long its segments and compressed bytes will be."""
        # Half a byte of padding and two of the marker; one byte of 256 is stuffed.
        return len(self.tables) + int(self.bits / 8 * (257 / 256) + 2.5 * (len(self.starts) - 1))


def plan_scan(picture: Picture, interval: int) -> Scan:
    """Turn coefficients into symbols, and find the shortest codes for them.

    Args:
        picture: Its coefficients.
        interval: Units between restart markers, 1 to 65535.

    Raises:
        Untiled: If a coefficient is larger than a sound picture of 8 bits can have.
    """
    tables = np.array([_table(component) for component in range(len(picture.grid))], np.int64)
    rows, columns = picture.frame.mcus
    starts = np.zeros(-(-rows * columns // interval) + 1, np.int64)
    counts = np.zeros((8, 257), np.int64)
    # A block has its DC, an end, up to three long runs, and the coefficients that are not zero.
    symbols = np.empty(np.count_nonzero(picture.blocks) + 5 * len(picture.blocks), np.uint32)
    shape = (rows * columns, columns, interval)
    if not _list_symbols(picture.blocks, picture.grid, tables, shape, symbols, starts, counts):
        raise Untiled("damaged")
    used = sorted({*tables.tolist(), *(4 + tables).tolist()})
    segment, codes = write_tables(counts, used)
    bits = int((counts[:, :256] * (codes.length + _FURTHER)).sum())
    return Scan(interval, symbols, starts, segment, codes, bits)


def write_scan(picture: Picture, scan: Scan) -> bytes:
    """Return the DRI, DHT and SOS segments and the compressed bytes, without an end marker."""
    num_intervals = len(scan.starts) - 1
    out = np.empty(2 * (scan.bits // 8 + 1) + 4 * num_intervals + 8, np.uint8)  # every byte stuffed
    size = _write_symbols(scan.symbols, scan.starts, scan.codes, out)
    header = bytes([len(picture.grid)])
    for number, component in enumerate(picture.frame.components):
        header += bytes([component.name, _table(number) * 17])
    restart = write_segment(DRI, struct.pack(">H", scan.interval))
    start = write_segment(SOS, header + bytes([0, 63, 0]))
    return restart + scan.tables + start + out[:size].tobytes()


def _table(component: int) -> int:
    """Brightness and, of four components, black share a table, the colours another one."""
    return 0 if component in (0, 3) else 1


_SIZES = np.array([value.bit_length() for value in range(2048)], np.uint8)
"""How many bits a value takes beside its symbol, by its absolute value."""


@kernel
def _list_symbols(
    blocks: Coefficients,
    grid: NDArray[np.int64],
    tables: NDArray[np.int64],
    shape: tuple[int, int, int],
    symbols: Symbols,
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> bool:
    """Turn coefficients into symbols, in the order of the scan.

    Args:
        blocks: int16 [number of blocks, 64] in zigzag order.
        grid: As in `Picture`.
        tables: int64 [components]: number of the DC table, 4 less than that of the AC table.
        shape: Units of the scan, of a row, and of a restart interval.
        symbols: For the result.
        starts: int64 [intervals + 1] for where in `symbols` each interval begins, and the end.
        counts: int64 [8, 257], zeros, for how often each symbol occurs.

    Returns:
        False if a coefficient does not fit into baseline.
    """
    units, per_row, interval = shape
    previous = np.zeros(4, np.int64)
    fours = blocks.view(np.int64)
    at = 0
    for unit in range(units):
        if unit % interval == 0:
            previous[:] = 0
            starts[unit // interval] = at
        row, column = unit // per_row, unit % per_row
        for part in range(grid.shape[0]):
            across, down, table = grid[part, 2], grid[part, 3], tables[part]
            for y in range(down):
                first = grid[part, 0] + (row * down + y) * grid[part, 1] + column * across
                for index in range(first, first + across):
                    value = signed(blocks[index, 0])
                    difference = value - previous[part]
                    previous[part] = value
                    if abs(difference) > 2047:
                        return False
                    size = signed(_SIZES[abs(difference)])
                    at = _append(table, size, difference, size, symbols, at, counts)
                    at = _list_ac(blocks[index], fours[index], 4 + table, symbols, at, counts)
                    if at < 0:
                        return False
    starts[-1] = at
    return True


@kernel
def _list_ac(
    block: NDArray[np.int16],
    fours: NDArray[np.int64],
    table: int,
    symbols: Symbols,
    at: int,
    counts: NDArray[np.int64],
) -> int:
    """Append the symbols of a block's AC coefficients.

    Args:
        block: int16 [64] in zigzag order.
        fours: int64 [16]: the same memory, to step over four zeros at once.
        table: Number of the AC table.
        symbols: For the result.
        at: How many symbols there are already.
        counts: int64 [8, 257] for how often each symbol occurs.

    Returns:
        How many symbols there are now, -1 if a value is too large for baseline.
    """
    run = -1  # the first coefficient is DC's
    for four in range(16):
        if fours[four] == 0:
            run += 4
            continue
        for coefficient in range(4 * four, 4 * four + 4):
            value = signed(block[coefficient])
            if value == 0 or coefficient == 0:
                run += 1
                continue
            while run > 15:
                at = _append(table, 0xF0, 0, 0, symbols, at, counts)
                run -= 16
            if abs(value) > 1023:
                return -1
            size = signed(_SIZES[abs(value)])
            at = _append(table, run << 4 | size, value, size, symbols, at, counts)
            run = 0
    return _append(table, 0, 0, 0, symbols, at, counts) if run else at


@inlined
def _append(
    table: int,
    symbol: int,
    value: int,
    size: int,
    symbols: Symbols,
    at: int,
    counts: NDArray[np.int64],
) -> int:
    further = (value + (value >> 63)) & ((1 << size) - 1)  # of negative values one less
    symbols[at] = table << 24 | symbol << 16 | further
    counts[table, symbol] += 1
    return at + 1


@kernel
def _write_symbols(
    symbols: Symbols, starts: NDArray[np.int64], codes: Codes, out: NDArray[np.uint8]
) -> int:
    """Write the scan's bytes with stuffing and restart markers; returns how many there are."""
    size = 0
    for interval in range(starts.size - 1):
        if interval:
            out[size] = 0xFF
            out[size + 1] = 0xD0 + (interval - 1) % 8
            size += 2
        word, free = unsigned(0), 64  # bits wait at the left
        for at in range(starts[interval], starts[interval + 1]):
            entry = signed(symbols[at])
            table, symbol = entry >> 24, entry >> 16 & 255
            further = symbol & 15
            free -= codes.length[table, symbol] + further
            bits = signed(codes.code[table, symbol]) << further | entry & 0xFFFF
            word |= unsigned(bits) << unsigned(free)
            if free <= 32:
                size = _flush(word, 4, out, size)
                word <<= unsigned(32)
                free += 32
        num_bytes = (71 - free) >> 3
        word |= unsigned((1 << (num_bytes * 8 + free - 64)) - 1) << unsigned(64 - num_bytes * 8)
        size = _flush(word, num_bytes, out, size)
    return size


@kernel
def _flush(word: int, num_bytes: int, out: NDArray[np.uint8], size: int) -> int:
    """Write the leftmost bytes of a word, with a zero behind each 0xFF; returns the new size."""
    if not has_ff(word):
        store_be64(out.ctypes.data + size, signed(word))
        return size + num_bytes
    for _ in range(num_bytes):
        byte = signed(word >> unsigned(56))
        word <<= unsigned(8)
        out[size] = byte
        size += 1
        if byte == 0xFF:
            out[size] = 0
            size += 1
    return size
