"""Reading Huffman codes of a scan: the bits that are read ahead, and one block after the other."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.huffman_tables import END, FAST_BITS, MOST, SLOW
from dali_pipes.jpeg.idct import OVERFLOW
from gpu_aug.compiled.jit import (
    inlined,
    kernel,
    load_be64,
    load_i32,
    load_i64,
    load_u8,
    signed,
    store_i16,
)

BAD = -1
"""In place of a depth: a code that no table has, or a block that is too long."""

BLOCK_BYTES = 192
"""Bytes of a block of coefficients and of what is written behind it."""

ZIGZAG = np.array(
    [
        *(0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5),
        *(12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28),
        *(35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51),
        *(58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63),
    ],
    np.uint8,
)
"""Where each coefficient of the zigzag order lies in the block, row by row; ITU-T T.81, figure A.6."""

_U3, _U48, _U56, _U63, _U64 = (np.uint64(number) for number in (3, 48, 56, 63, 64))
_UNKNOWN = signed(-1)
_INDEX = np.uint64(64 - FAST_BITS)

# The byte of a block at which each coefficient of the zigzag order lies. END and SLOW write behind it.
_BYTE_OFFSETS = np.concatenate([2 * ZIGZAG, np.full(256, 128)]).astype(np.int16)


@inlined
def refill(buffer: Any, bits: Any, position: int) -> Any:
    """Have at least 56 bits in the buffer.

    Args:
        buffer: uint64, the next bit is its highest one.
        bits: uint64, how many of them are sure; only its six lowest bits count.
        position: Address of the first byte that is not among the sure ones.

    Returns:
        The same three.
    """
    bits &= _U63
    buffer |= load_be64(position) >> bits
    return buffer, bits | _U56, position + signed((_U63 - bits) >> _U3)


@inlined
def read_level(buffer: Any, bits: Any, block: Any) -> Any:
    """Read the difference of a DC value: 27 bits at most; returns buffer, bits, number and whether it is good."""
    found = signed(load_i32(block.levels + signed(buffer >> _INDEX) * 4))
    buffer <<= np.uint64(found) & _U63
    bits -= np.uint64(found)
    number, good = found >> 16, True
    if found >> 8 & 255 == SLOW:
        symbol, length = finish_code(buffer, found >> 16, block.dc_search, block.dc_symbols)
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
def read_block(buffer: Any, bits: Any, position: int, block: Any, coefficients: int) -> Any:
    """Read the 63 coefficients behind the first one, at least 4 * FAST_BITS bits being read ahead.

    Returns:
        Buffer, bits, position, and the number of the last coefficient in the zigzag order, or BAD.
    """
    coefficient = signed(0)
    while True:
        for _ in range(4):
            old_buffer, old_bits, old_coefficient = buffer, bits, coefficient
            found = load_i64(block.pairs + signed(buffer >> _INDEX) * 8)
            buffer <<= np.uint64(found) & _U63
            bits -= np.uint64(found)
            first = coefficient + (found >> 8 & 255)
            coefficient += found >> 16 & 255
            store_i16(coefficients + signed(_BYTE_OFFSETS[np.uint64(first)]), found >> 32)
            store_i16(coefficients + signed(_BYTE_OFFSETS[np.uint64(coefficient)]), found >> 48)
            if coefficient >= 63:
                break
        if coefficient >= 63:
            depth = _depth(coefficient, found >> 8 & 255)
            if depth >= 0:
                break
            buffer, bits, position = refill(old_buffer, old_bits, position)
            buffer, bits, coefficient, number = _read_slowly(
                buffer, bits, old_coefficient, block.ac_search, block.ac_symbols
            )
            depth = coefficient if coefficient == 63 else coefficient - END
            if coefficient >= 63:
                if coefficient == 63:
                    store_i16(coefficients + signed(_BYTE_OFFSETS[np.uint64(63)]), number)
                break
            store_i16(coefficients + signed(_BYTE_OFFSETS[np.uint64(coefficient)]), number)
        buffer, bits, position = refill(buffer, bits, position)
    return buffer, bits, position, depth


@inlined
def pass_block(buffer: Any, bits: Any, position: int, block: Any, coefficients: int) -> Any:
    """The same without keeping the coefficients; those out of range are noted behind the block all the same."""
    coefficient = signed(0)
    while True:
        for _ in range(4):
            old_buffer, old_bits, old_coefficient = buffer, bits, coefficient
            found = signed(load_i32(block.hops + signed(buffer >> _INDEX) * 4))
            buffer <<= np.uint64(found) & _U63
            bits -= np.uint64(found)
            coefficient += found >> 8 & 255
            if coefficient >= 63:
                break
        if coefficient >= 63:
            depth = _depth(coefficient, found >> 8 & 255)
            if depth >= 0:
                break
            buffer, bits, position = refill(old_buffer, old_bits, position)
            buffer, bits, coefficient, number = _read_slowly(
                buffer, bits, old_coefficient, block.ac_search, block.ac_symbols
            )
            if number > 1 or number < -1:
                _note_range(number, coefficient, block.steps, coefficients)
            depth = coefficient if coefficient == 63 else coefficient - END
            if coefficient >= 63:
                break
        buffer, bits, position = refill(buffer, bits, position)
    return buffer, bits, position, depth


@inlined
def _depth(coefficient: int, advance: int) -> int:
    """The last coefficient's number if the block has ended there; BAD where that is to be looked at slowly."""
    depth = BAD
    if coefficient == 63:
        depth = 63
    elif coefficient >= END and coefficient < END + 63 and advance < SLOW:
        depth = coefficient - END
    return depth


@kernel
def _read_slowly(buffer: Any, bits: Any, coefficient: int, search: int, symbols: int) -> Any:
    """Read one symbol: returns buffer, bits, the coefficient it leads to (or END + it for an end, 64 if bad), its number."""
    symbol, length = finish_code(buffer, _UNKNOWN, search, symbols)
    buffer <<= np.uint64(length)
    bits -= np.uint64(length)
    if symbol < 0:
        return buffer, bits, 64, 0
    run, size = symbol >> 4, symbol & 15
    if size == 0:
        if run < 15:
            return buffer, bits, coefficient + END, 0
        return buffer, bits, (coefficient + 16 if coefficient + 16 < 64 else 64), 0
    number = read_number(buffer, size)
    buffer <<= np.uint64(size)
    bits -= np.uint64(size)
    coefficient += run + 1
    return buffer, bits, (coefficient if coefficient < 64 else 64), number


@kernel
def _note_range(number: int, coefficient: int, steps: int, coefficients: int) -> None:
    """Note behind the block a coefficient of its first row that the transform finds out of range."""
    place = signed(_BYTE_OFFSETS[np.uint64(coefficient)])
    if place < 16:
        product = number * (load_i32(steps + place) & 0xFFFF) << 48 >> 48
        if product > MOST or product < -MOST - 1:
            store_i16(coefficients + OVERFLOW, 1)


@kernel
def finish_code(buffer: Any, symbol: int, search: int, symbols: int) -> tuple[int, int]:
    """The symbol of the code at the front (-1 where there is none) and its length, unless the symbol is known."""
    if symbol >= 0:
        return symbol, 0
    ahead = signed(buffer >> _U48)
    for length in range(1, 17):
        if ahead < load_i32(search + 4 * length):
            index = (ahead >> (16 - length)) + load_i32(search + 4 * (17 + length))
            return signed(load_u8(symbols + index)), length
    return -1, 0


@inlined
def read_number(buffer: Any, size: int) -> int:
    """The number of so many bits at the front, 1 to 15, in JPEG's way of writing negative ones."""
    raw = signed(buffer >> (_U64 - np.uint64(size)))
    return raw if raw >> (size - 1) else raw - (1 << size) + 1
