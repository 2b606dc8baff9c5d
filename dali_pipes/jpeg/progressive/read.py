"""Read the codes of one of several scans: new coefficients, and one more bit of known ones."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import prepare_mcu
from dali_pipes.jpeg.huffman import read_band, read_level, refill
from dali_pipes.jpeg.huffman_tables import (
    AC_FIRST,
    AC_REFINE,
    DC_REFINE,
    END,
    SEQUENTIAL,
)
from dali_pipes.jpeg.progressive.bits import ONE
from dali_pipes.jpeg.progressive.memory import MASK_BYTES, scan_at
from dali_pipes.jpeg.progressive.refine import address_of, refine_block
from dali_pipes.jpeg.status import BAD_CODE, BAD_NUMBER, CUT_SHORT, GOOD
from gpu_aug.compiled.jit import (
    inlined,
    load_i16,
    load_i64,
    separate,
    signed,
    store_i16,
    store_i64,
)

_U63 = np.uint64(63)


def _read_columns(address: int, column: int, stop: int) -> int:
    """Read the MCUs of a scan's row from column `column` to `stop` (exclusive).

    Args:
        address: Address of the scan.
        column: Column of the first MCU.
        stop: Column after that of the last MCU.

    Returns:
        A status.
    """
    scan = scan_at(address)
    feed, unit, kind, empty = scan.feed, scan.units[0], scan.kind, scan.empty
    buffer, bits, position = np.uint64(feed.buffer), np.uint64(feed.bits), feed.position
    at, status = column, signed(GOOD)
    while at < stop:
        # Empty blocks have no codes, so the scan may end before this MCU.
        if kind == AC_FIRST and empty > 0:
            some = min(empty, stop - at)
            at += some
            empty -= some
            continue
        position, is_there = prepare_mcu(feed, bits, position)
        if not is_there:
            return CUT_SHORT
        buffer, bits, position = refill(buffer, bits, position)
        if kind == AC_REFINE:
            buffer, bits, position, empty = refine_block(
                buffer, bits, position, empty, at, unit, scan
            )
            status = signed(BAD_CODE if empty < 0 else GOOD)
        elif kind == AC_FIRST:
            buffer, bits, position, empty, status = _read_ac(buffer, bits, position, at, unit, scan)
        elif kind == DC_REFINE:
            for number in range(scan.num_units):
                out = address_of(scan.units[number], at, scan.spare)
                store_i16(out, load_i16(out) | signed(buffer >> _U63 << np.uint64(scan.low)))
                buffer <<= ONE
            bits -= np.uint64(scan.num_units)
        else:
            buffer, bits, position, status = _read_mcu(buffer, bits, position, at, scan)
        if status != GOOD:
            return status
        at += 1
    scan.empty = empty
    feed.buffer, feed.bits, feed.position = signed(buffer), signed(bits & _U63), position
    return GOOD


@inlined
def _read_ac(buffer: Any, bits: Any, position: int, at: int, unit: Any, scan: Any) -> Any:
    """Read a band of one block; return buffer, bits, position, the count of empty blocks that follow, and a status."""
    masks = unit.masks + MASK_BYTES * (at * unit.across + unit.column)
    buffer, bits, position, mask, last, empty = read_band(
        buffer, bits, position, unit, address_of(unit, at, scan.spare), scan.offsets,
        max(scan.first, 1) - 1, scan.last, scan.low, scan.kind != SEQUENTIAL,
    )  # fmt: skip
    store_i64(masks, load_i64(masks) | signed(mask))
    status = signed(GOOD if last == scan.last or last >= END else BAD_CODE)
    return buffer, bits, position, empty, status


@inlined
def _read_mcu(buffer: Any, bits: Any, position: int, at: int, scan: Any) -> Any:
    """Read an MCU of a DC or sequential scan; return buffer, bits, position and a status."""
    status = signed(GOOD)
    for number in range(scan.num_units):
        unit = scan.units[number]
        buffer, bits, position, value, status = _read_dc(buffer, bits, position, unit, scan.feed)
        if status != GOOD:
            break
        store_i16(address_of(unit, at, scan.spare), value << scan.low)
        if scan.kind == SEQUENTIAL:
            buffer, bits, position = refill(buffer, bits, position)
            buffer, bits, position, _, status = _read_ac(buffer, bits, position, at, unit, scan)
            if status != GOOD:
                break
    return buffer, bits, position, status


@inlined
def _read_dc(buffer: Any, bits: Any, position: int, unit: Any, feed: Any) -> Any:
    """Read a DC value of a unit's block; return buffer, bits, position, the value and a status."""
    buffer, bits, position = refill(buffer, bits, position)
    buffer, bits, step, good = read_level(buffer, bits, unit)
    value, status = feed.prediction[unit.component] + step, GOOD
    feed.prediction[unit.component] = value
    if value < -unit.most or value >= unit.most:
        status = BAD_NUMBER
    if not good:
        status = BAD_CODE
    return buffer, bits, position, value, status


read_columns = separate(_read_columns)
"""`_read_columns` for kernels."""
