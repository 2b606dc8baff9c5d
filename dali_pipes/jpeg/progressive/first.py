"""Reading scans that bring coefficients for the first time: DC, a band of AC, or all of a sequential scan."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import prepare_mcu
from dali_pipes.jpeg.huffman import BLOCK_BYTES, finish_code, read_level, read_number, refill
from dali_pipes.jpeg.huffman_tables import END, FAST_BITS, SEQUENTIAL, SLOW
from dali_pipes.jpeg.progressive.bits import ONE, ZERO
from dali_pipes.jpeg.progressive.memory import MASK_BYTES, scan_at
from dali_pipes.jpeg.status import BAD_CODE, BAD_NUMBER, CUT_SHORT, GOOD
from gpu_aug.compiled.jit import (
    inlined,
    kernel,
    load_i64,
    separate,
    signed,
    store_i16,
    store_i64,
)

_U16, _U48, _U63 = (np.uint64(number) for number in (16, 48, 63))
_INDEX = np.uint64(64 - FAST_BITS)
_UNKNOWN = signed(-1)
_BAD = signed(-1)
_LIMIT = 1 << 15


@inlined
def address_of(unit: Any, column: int, spare: int) -> int:
    """Return the address of a unit's block in a column of MCUs; the spare one where it is not wanted."""
    which = column * unit.across + unit.column - unit.first
    return unit.out + which * BLOCK_BYTES if 0 <= which < unit.wanted else spare


@inlined
def _read_dc(buffer: Any, bits: Any, position: int, unit: Any, feed: Any) -> Any:
    """Read a DC value of a unit's block: returns buffer, bits, position, the value and a status."""
    buffer, bits, position = refill(buffer, bits, position)
    buffer, bits, step, good = read_level(buffer, bits, unit)
    value, status = feed.prediction[unit.component] + step, GOOD
    feed.prediction[unit.component] = value
    if value < -unit.most or value >= unit.most:
        status = BAD_NUMBER
    if not good:
        status = BAD_CODE
    return buffer, bits, position, value, status


def _read_dc_first(address: int, column: int, stop: int) -> int:
    """Read the DC values of MCUs of one row, from one column up to another; returns a status."""
    scan = scan_at(address)
    feed, low = scan.feed, scan.low
    buffer, bits, position = np.uint64(feed.buffer), np.uint64(feed.bits), feed.position
    for at in range(column, stop):
        position, is_there = prepare_mcu(feed, bits, position)
        if not is_there:
            return CUT_SHORT
        for number in range(scan.num_units):
            unit = scan.units[number]
            buffer, bits, position, value, status = _read_dc(buffer, bits, position, unit, feed)
            if status != GOOD:
                return signed(status)
            store_i16(address_of(unit, at, scan.spare), value << low)
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


def _read_sequential(address: int, column: int, stop: int) -> int:
    """Read all coefficients of MCUs of one row, from one column up to another; returns a status."""
    scan = scan_at(address)
    feed = scan.feed
    buffer, bits, position = np.uint64(feed.buffer), np.uint64(feed.bits), feed.position
    for at in range(column, stop):
        position, is_there = prepare_mcu(feed, bits, position)
        if not is_there:
            return CUT_SHORT
        for number in range(scan.num_units):
            unit = scan.units[number]
            buffer, bits, position, value, status = _read_dc(buffer, bits, position, unit, feed)
            if status != GOOD:
                return signed(status)
            out = address_of(unit, at, scan.spare)
            store_i16(out, value)
            buffer, bits, position, mask, empty = _read_band(
                buffer, bits, position, unit, out, scan
            )
            if empty != 0:
                return BAD_CODE
            store_i64(unit.masks + MASK_BYTES * (at * unit.across + unit.column), signed(mask))
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


def _read_ac_first(address: int, column: int, stop: int) -> int:
    """Read a band of AC coefficients of blocks of one row, from one column up to another; returns a status."""
    scan = scan_at(address)
    feed, unit = scan.feed, scan.units[0]
    buffer, bits, position = np.uint64(feed.buffer), np.uint64(feed.bits), feed.position
    at, empty = column, scan.empty
    while at < stop:
        if empty > 0:
            some = min(empty, stop - at)
            at += some
            empty -= some
            continue
        position, is_there = prepare_mcu(feed, bits, position)
        if not is_there:
            return CUT_SHORT
        buffer, bits, position, mask, empty = _read_band(
            buffer, bits, position, unit, address_of(unit, at, scan.spare), scan
        )
        if empty < 0:
            return BAD_CODE
        masks = unit.masks + MASK_BYTES * at
        store_i64(masks, load_i64(masks) | signed(mask))
        at += 1
    scan.empty = empty
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


@inlined
def _read_band(buffer: Any, bits: Any, position: int, unit: Any, out: int, scan: Any) -> Any:
    """Read a block's band.

    Returns:
        Buffer, bits, position, the mask of the coefficients that are not zero, and how many empty blocks follow, or _BAD.
    """
    last, mask, empty = scan.last, ZERO, _BAD
    coefficient = max(scan.first, 1) - 1
    pairs, offsets = unit.pairs, scan.offsets
    while True:
        buffer, bits, position = refill(buffer, bits, position)
        for _ in range(4):
            old_buffer, old_bits, old_coefficient, old_mask = buffer, bits, coefficient, mask
            found = load_i64(pairs + signed(buffer >> _INDEX) * 8)
            buffer <<= np.uint64(found) & _U63
            bits -= np.uint64(found)
            first = coefficient + (found >> 8 & 255)
            coefficient += found >> 16 & 255
            one, other = np.uint64(found) << _U16 >> _U48, np.uint64(found) >> _U48
            store_i16(out + offsets[np.uint64(first)], signed(one))
            store_i16(out + offsets[np.uint64(coefficient)], signed(other))
            mask |= np.uint64(one != ZERO) << (np.uint64(first) & _U63)
            mask |= np.uint64(other != ZERO) << (np.uint64(coefficient) & _U63)
            if coefficient >= last:
                break
        if coefficient >= last:
            if coefficient == last:
                empty = signed(0)
                break
            if coefficient >= END and coefficient < END + last and found >> 8 & 255 < SLOW:
                empty = found >> 24 & 255
                break
            buffer, bits, position = refill(old_buffer, old_bits, position)
            buffer, bits, coefficient, number, empty = _read_slowly(
                buffer, bits, old_coefficient, unit, scan
            )
            mask = old_mask
            if number != 0:
                store_i16(out + offsets[np.uint64(coefficient)], number)
                mask |= ONE << np.uint64(coefficient)
            if coefficient >= last:
                if coefficient == last:
                    empty = signed(0)
                break
    return buffer, bits, position, mask, empty


@kernel
def _read_slowly(
    buffer: Any, bits: Any, coefficient: int, unit: Any, scan: Any
) -> tuple[Any, Any, int, int, int]:
    """Read one symbol.

    Returns:
        Buffer, bits, the coefficient that it leads to (END for the band's end), its number, and at the end of the band
        how many empty blocks follow; _BAD there and a coefficient of 64 if it is bad.
    """
    symbol, length = finish_code(buffer, _UNKNOWN, unit.ac_search, unit.ac_symbols)
    buffer <<= np.uint64(length)
    bits -= np.uint64(length)
    run, size = symbol >> 4, symbol & 15
    if symbol < 0 or (size > 0 and coefficient + run + 1 > scan.last):
        return buffer, bits, 64, 0, _BAD
    if size == 0 and run == 15:
        return buffer, bits, min(coefficient + 16, 64), 0, _BAD
    if size == 0:
        more = 0 if scan.kind == SEQUENTIAL else run
        empty = (1 << more) - 1 + signed(buffer >> ONE >> np.uint64(63 - more))
        return buffer << np.uint64(more), bits - np.uint64(more), END, 0, empty
    number = read_number(buffer, size)
    buffer <<= np.uint64(size)
    bits -= np.uint64(size)
    number <<= scan.low
    if number < -_LIMIT or number >= _LIMIT:
        return buffer, bits, 64, 0, _BAD
    return buffer, bits, coefficient + run + 1, number, _BAD


read_dc_first, read_ac_first = separate(_read_dc_first), separate(_read_ac_first)
read_sequential = separate(_read_sequential)
