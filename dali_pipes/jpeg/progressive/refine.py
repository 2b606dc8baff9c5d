"""Read a refinement scan: one more bit of known coefficients, and new coefficients between them."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.huffman import BLOCK_BYTES, finish_code, refill
from dali_pipes.jpeg.huffman_tables import ENDS, FAST_BITS, LONG, NEGATIVE, NEW
from dali_pipes.jpeg.progressive.bits import ONE, ZERO, choose, count, deposit, lowest
from dali_pipes.jpeg.progressive.memory import MASK_BYTES
from gpu_aug.compiled.jit import (
    inlined,
    inner,
    load_i16,
    load_i32,
    load_i64,
    signed,
    store_i16,
    store_i64,
)

_U63 = np.uint64(63)
_INDEX = np.uint64(64 - FAST_BITS)
_UNKNOWN = signed(-1)
_AT_ONCE = np.uint64(35)  # bits that are surely read ahead after a looked-up code
_HALF = np.uint64((1 << 32) - 1)


@inlined
def address_of(unit: Any, column: int, spare: int) -> int:
    """Return the address of a unit's block in an MCU column; the spare block if it is not needed."""
    which = column * unit.across + unit.column - unit.first
    return unit.out + which * BLOCK_BYTES if 0 <= which < unit.wanted else spare


@inlined
def refine_block(
    buffer: Any, bits: Any, position: int, empty: int, at: int, unit: Any, scan: Any
) -> Any:
    """Refine a band of the block in a column by one bit; at least 56 bits must be read ahead.

    Returns:
        Buffer, bits, position, and the count of empty blocks that follow (-1 if a code is invalid).
    """
    out = address_of(unit, at, scan.spare)
    masks = unit.masks + MASK_BYTES * at
    band = (ONE << np.uint64(scan.last) << ONE) - (ONE << np.uint64(scan.first))
    known, ahead, grown = np.uint64(load_i64(masks)), band, ZERO
    if empty > 0:
        empty -= 1
    else:
        buffer, bits, position, ahead, grown, empty = _read_new(
            buffer, bits, position, known, out, masks, unit, scan
        )
    buffer, bits, position, more = _read_bits(buffer, bits, position, known & ahead)
    if 0 <= at - unit.first < unit.wanted:
        _grow(grown | more, out, scan.low, scan.offsets)
    return buffer, bits, position, empty


@inlined
def _read_new(
    buffer: Any, bits: Any, position: int, known: Any, out: int, masks: int, unit: Any, scan: Any
) -> Any:
    """Read the new coefficients of a block, and one bit of each known coefficient between them.

    Returns:
        Buffer, bits, position, the mask of the coefficients after the last new one, the mask of the coefficients that
        grow, and the count of empty blocks that follow (-1 if a code is invalid).
    """
    ahead = (ONE << np.uint64(scan.last) << ONE) - (ONE << np.uint64(scan.first))
    band, grown, added, empty = ahead, ZERO, ZERO, signed(0)
    one = ONE << np.uint64(scan.low)
    while ahead != ZERO:
        found = signed(load_i32(unit.pairs + signed(buffer >> _INDEX) * 4))
        buffer, bits, position = refill(buffer, bits, position)
        buffer <<= np.uint64(found) & _U63
        bits -= np.uint64(found & 63)
        if found & (ENDS | LONG):
            if found & ENDS:
                empty = found >> 16
                break
            buffer, bits, position, found = _finish_slowly(buffer, bits, position, found, unit)
            if found & (ENDS | LONG):
                empty = found >> 16
                break
        spot = choose(ahead & ~known, found >> 8 & 15)
        if spot == ZERO:
            empty = signed(-1)
            break
        passed = known & ahead & (spot - ONE)
        ahead &= ZERO - (spot << ONE)
        buffer, bits, position, more = _read_bits(buffer, bits, position, passed)
        grown |= more
        if found & NEW:
            added |= spot
            number = signed(one) if not found & NEGATIVE else -signed(one)
            store_i16(out + scan.offsets[lowest(spot)], number)
    store_i64(masks, signed(known | added))
    return buffer, bits, position, ahead & band, grown, empty


@inlined
def _read_bits(buffer: Any, bits: Any, position: int, members: Any) -> Any:
    """Read one bit for each member; return buffer, bits, position, and the members whose bit is set."""
    number = count(members)
    if number <= _AT_ONCE:
        found = deposit(buffer, members)
        buffer <<= number
        bits -= number
    else:
        buffer, bits, position = refill(buffer, bits, position)
        near = members & _HALF
        found = deposit(buffer, near)
        buffer <<= count(near)
        bits -= count(near)
        buffer, bits, position = refill(buffer, bits, position)
        members &= ~_HALF
        found |= deposit(buffer, members)
        buffer <<= count(members)
        bits -= count(members)
    return buffer, bits, position, found


@inlined
def _grow(members: Any, out: int, low: int, offsets: Any) -> None:
    """Move the given coefficients of a block away from zero by one bit."""
    while members != ZERO:
        at = out + offsets[lowest(members)]
        number = signed(load_i16(at))
        store_i16(at, number + ((number >> 63 | 1) << low))
        members &= members - ONE


@inner
def _finish_slowly(buffer: Any, bits: Any, position: int, found: int, unit: Any) -> Any:
    """Read a code that no table entry decodes completely; return buffer, bits, position, and a full entry or -1."""
    symbol, length = finish_code(buffer, found >> 16, unit.ac_search, unit.ac_symbols)
    buffer <<= np.uint64(length)
    bits -= np.uint64(length)
    run, size = symbol >> 4, symbol & 15
    if symbol < 0 or size > 1:
        return buffer, bits, position, _UNKNOWN
    more = run if size == 0 and run < 15 else size
    number = signed(buffer >> ONE >> np.uint64(63 - more))
    buffer <<= np.uint64(more)
    bits -= np.uint64(more)
    buffer, bits, position = refill(buffer, bits, position)
    found = run << 8
    if size == 0 and run < 15:
        found = ((1 << more) - 1 + number) << 16 | ENDS
    elif size:
        found |= NEW if number else NEW | NEGATIVE
    return buffer, bits, position, found
