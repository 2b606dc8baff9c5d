"""Read the Huffman codes of a scan: read bits ahead, and decode the coefficients of a block."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.huffman_tables import END, ENTRIES_AHEAD, FAST_BITS, HOP_BITS, MOST, SLOW
from dali_pipes.jpeg.idct import OVERFLOW
from gpu_aug.compiled.jit import (
    inlined,
    inner,
    load_be64,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    signed,
    store_i16,
)

BLOCK_BYTES = 192
"""Bytes of a block of coefficients, including the margin behind it that is written, too."""

ZIGZAG = np.array(
    [
        *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5),
        *(12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28),
        *(35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51),
        *(58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63),
    ],
    np.uint8,
)
"""The row-major index in the block of each coefficient in zigzag order; ITU-T T.81, figure A.6."""

_U0, _U1, _U3, _U48, _U56, _U63, _U64 = map(np.uint64, (0, 1, 3, 48, 56, 63, 64))
_UNKNOWN, _LOWEST, _LAST = signed(-1), signed(0), signed(63)
_LIMIT = 1 << 15  # coefficients have 16 bits
_INDEX, _HOP_INDEX = np.uint64(64 - FAST_BITS), np.uint64(64 - HOP_BITS)

BYTE_OFFSETS = np.concatenate([2 * ZIGZAG, np.full(192, 128)]).astype(np.int16)
"""The byte offset in a block of each coefficient in zigzag order. Indices from END on lead behind the block."""


@inlined
def refill(buffer: Any, bits: Any, position: int) -> Any:
    """Read ahead until the buffer has at least 56 bits.

    Args:
        buffer: uint64 whose highest bit is the next bit.
        bits: uint64, count of valid bits in the buffer; only its six lowest bits count.
        position: Address of the first byte that is not in the buffer.

    Returns:
        The new values of buffer, bits and position.
    """
    bits &= _U63
    buffer |= load_be64(position) >> bits
    return buffer, bits | _U56, position + signed((_U63 - bits) >> _U3)


@inlined
def read_level(buffer: Any, bits: Any, block: Any) -> Any:
    """Read the difference of a DC value, at most 27 bits; return buffer, bits, difference and whether it is valid."""
    found = signed(load_i32(block.levels + signed(buffer >> _INDEX) * 4))
    number = _last_number(buffer, found, found >> 16)
    buffer <<= np.uint64(found) & _U63
    bits -= np.uint64(found)
    good = True
    if found >> 8 & 255 == SLOW:
        symbol, length = finish_code(buffer, _UNKNOWN, block.dc_search, block.dc_symbols)
        buffer <<= np.uint64(length)
        bits -= np.uint64(length)
        good = symbol >= 0
        number = 0
        if symbol > 0:
            number = read_number(buffer, symbol)
            buffer <<= np.uint64(symbol)
            bits -= np.uint64(symbol)
    return buffer, bits, number, good


@inlined
def read_band(
    buffer: Any,
    bits: Any,
    position: int,
    block: Any,
    out: int,
    offsets: Any,
    before: int,
    last: int,
    low: int,
    has_runs: bool,
) -> Any:
    """Read the coefficients of a block or of a band; ENTRIES_AHEAD * MOST_BITS bits must be read ahead.

    Args:
        buffer: See `refill`.
        bits: See `refill`.
        position: See `refill`.
        block: BLOCK with an AC table.
        out: Address of the block.
        offsets: int16 [256], byte offset in the block of each coefficient.
        before: Index of the coefficient before the band, in zigzag order.
        last: Index of the band's last coefficient, in zigzag order.
        low: Bit position of the numbers; it is included in the table's entries already.
        has_runs: Whether a code may end the bands of several blocks.

    Returns:
        Buffer, bits, position, the mask of nonzero coefficients, the index of the last coefficient (plus END if a code
        ended the band; between `last` and END if the codes are invalid), and the count of empty blocks that follow.
    """
    coefficient, mask, empty = before, _U0, signed(0)
    while True:
        for _ in range(ENTRIES_AHEAD):
            old_buffer, old_bits, old_coefficient, old_mask = buffer, bits, coefficient, mask
            found = load_i64(block.pairs + signed(buffer >> _INDEX) * 8)
            one, other = found << 16 >> 48, _last_number(buffer, found, found >> 48) << low
            buffer <<= np.uint64(found) & _U63
            bits -= np.uint64(found)
            first = coefficient + (found >> 8 & 255)
            coefficient += found >> 16 & 255
            store_i16(out + offsets[np.uint64(first)], one)
            store_i16(out + offsets[np.uint64(coefficient)], other)
            mask |= np.uint64(one != 0) << (np.uint64(first) & _U63)
            mask |= np.uint64(other != 0) << (np.uint64(coefficient) & _U63)
            if coefficient >= last:
                break
        if coefficient >= last:
            if coefficient == last:
                break
            if coefficient >= END and coefficient < END + last and found >> 8 & 255 < SLOW:
                empty = found >> 24 & 255
                break
            buffer, bits, position = refill(old_buffer, old_bits, position)
            buffer, bits, coefficient, number, empty = _read_slowly(
                buffer, bits, old_coefficient, last, low, has_runs, block.ac_search,
                block.ac_symbols,
            )  # fmt: skip
            mask = old_mask
            if number != 0:
                store_i16(out + offsets[np.uint64(coefficient)], number)
                mask |= _U1 << np.uint64(coefficient)
            if coefficient >= last:
                break
        buffer, bits, position = refill(buffer, bits, position)
    return buffer, bits, position, mask, coefficient, empty


@inlined
def pass_block(buffer: Any, bits: Any, position: int, block: Any, coefficients: int) -> Any:
    """Skip all coefficients of a block; coefficients out of range are still noted behind it.

    Returns:
        Buffer, bits, position, and the index of the last coefficient, as `read_band` returns it.
    """
    coefficient = signed(0)
    while True:
        for _ in range(ENTRIES_AHEAD):
            old_buffer, old_bits, old_coefficient = buffer, bits, coefficient
            found = signed(load_u16(block.hops + signed(buffer >> _HOP_INDEX) * 2))
            buffer <<= np.uint64(found) & _U63
            bits -= np.uint64(found)
            coefficient += found >> 8
            if coefficient >= 63:
                break
        if coefficient >= 63:
            is_end = coefficient >= END and coefficient < END + 63 and found >> 8 < SLOW
            if coefficient == 63 or is_end:
                break
            buffer, bits, position = refill(old_buffer, old_bits, position)
            buffer, bits, coefficient, number, _ = _read_slowly(
                buffer, bits, old_coefficient, _LAST, _LOWEST, False, block.ac_search,
                block.ac_symbols,
            )  # fmt: skip
            if number > 1 or number < -1:
                _note_range(number, coefficient, block.steps, coefficients)
            if coefficient >= 63:
                break
        buffer, bits, position = refill(buffer, bits, position)
    return buffer, bits, position, coefficient


@inner
def _read_slowly(
    buffer: Any,
    bits: Any,
    coefficient: int,
    last: int,
    low: int,
    has_runs: bool,
    search: int,
    symbols: int,
) -> tuple[Any, Any, int, int, int]:
    """Read one symbol without the fast tables.

    Returns:
        Buffer, bits, the index of the symbol's coefficient (plus END at the end of the band; 64 if the code is
        invalid), the coefficient's value, and the count of empty blocks that follow.
    """
    symbol, length = finish_code(buffer, _UNKNOWN, search, symbols)
    buffer <<= np.uint64(length)
    bits -= np.uint64(length)
    run, size = symbol >> 4, symbol & 15
    if symbol < 0 or (size > 0 and coefficient + run + 1 > last):
        return buffer, bits, 64, 0, 0
    if size == 0 and run == 15:
        return buffer, bits, min(coefficient + 16, 64), 0, 0
    if size == 0:
        more = run if has_runs else 0
        empty = (1 << more) - 1 + signed(buffer >> _U1 >> np.uint64(63 - more))
        return buffer << np.uint64(more), bits - np.uint64(more), coefficient + END, 0, empty
    number = read_number(buffer, size)
    buffer <<= np.uint64(size)
    bits -= np.uint64(size)
    number <<= low
    if number < -_LIMIT or number >= _LIMIT:
        return buffer, bits, 64, 0, 0
    return buffer, bits, coefficient + run + 1, number, 0


@inner
def _note_range(number: int, coefficient: int, steps: int, coefficients: int) -> None:
    """Note behind the block if a coefficient of its first row is out of the transform's range."""
    place = signed(BYTE_OFFSETS[np.uint64(coefficient)])
    if place < 16:
        product = number * (load_i32(steps + place) & 0xFFFF) << 48 >> 48
        if product > MOST or product < -MOST - 1:
            store_i16(coefficients + OVERFLOW, 1)


@inner
def finish_code(buffer: Any, symbol: int, search: int, symbols: int) -> tuple[int, int]:
    """Return the symbol of the next code (-1 if no table has it) and the code's length; the length is 0 if the symbol is given."""
    if symbol >= 0:
        return symbol, 0
    ahead = signed(buffer >> _U48)
    for length in range(1, 17):
        if ahead < load_i32(search + 4 * length):
            index = (ahead >> (16 - length)) + load_i32(search + 4 * (17 + length))
            return signed(load_u8(symbols + index)), length
    return -1, 0


@inlined
def _last_number(buffer: Any, length: int, mask: int) -> int:
    """Return the number in the last of the first `length & 63` bits; `mask` has as many ones as the number has bits."""
    raw = signed(buffer >> (np.uint64(-length) & _U63)) & mask
    return raw if raw > mask >> 1 else raw - mask


@inlined
def read_number(buffer: Any, size: int) -> int:
    """Return the number in the first `size` bits, 1 to 15; ITU-T T.81, F.2.2.1, defines negative ones."""
    raw = signed(buffer >> (_U64 - np.uint64(size)))
    return raw if raw >> (size - 1) else raw - (1 << size) + 1
