"""Decode a crop of a JPEG of several scans.

All scans are read in parallel, row of MCUs by row. So the coefficients of a row are complete while they are in the
processor's cache, and only one row is in memory. If the file is judged, all scans are read to their ends, whatever the
crop is.
"""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import start_feed
from dali_pipes.jpeg.huffman import BLOCK_BYTES
from dali_pipes.jpeg.idct import CORNER, OVERFLOW, invert, pass_over
from dali_pipes.jpeg.memory import MARGIN, memory_at
from dali_pipes.jpeg.pixels import write_rows
from dali_pipes.jpeg.progressive.memory import (
    FIRST_SCAN,
    MASK_BYTES,
    SCAN_BYTES,
    SCANS_BYTES,
    scan_at,
    scans_at,
)
from dali_pipes.jpeg.progressive.read import read_columns
from dali_pipes.jpeg.progressive.script import read_scans
from dali_pipes.jpeg.scan import end_interval, next_interval
from dali_pipes.jpeg.status import BAD_NUMBER, GOOD, LEFT_OVER, SCRATCH_SHORT, SEVERAL_SCANS
from gpu_aug.compiled.jit import inlined, inner, load_i64, separate, signed, store_i64

_NONE, _PAST_CORNER = np.uint64(0), np.uint64(1 << CORNER)


def _decode_scans(address: int, own: int) -> int:
    """Decode the crop, judge the file, or both, as the job requests; the header was read up to the first scan.

    Args:
        address: Address of the memory, with the crop already found. An empty crop requests only the verdict.
        own: Address of free memory, a multiple of 8.

    Returns:
        A status.
    """
    memory = memory_at(address)
    if own + SCANS_BYTES > address + memory.job.num_bytes:
        return SCRATCH_SHORT
    scans = scans_at(own)
    if not _allot_rows(memory, scans, own + SCANS_BYTES, address + memory.job.num_bytes):
        return SCRATCH_SHORT
    status = signed(read_scans(address, own))
    if status != GOOD:
        return status
    memory.job.noted = 0
    for number in range(scans.num_scans):
        scan = scans.scans[number]
        scan.spare, scan.empty = signed(scans.spare.ctypes.data), 0
        start_feed(scan.feed, scan.feed.source)
        scan.intervals.left, scan.intervals.number = scan.intervals.mcus, 0
    return _decode_rows(address, memory, scans, own)


@inlined
def _allot_rows(memory: Any, scans: Any, start: int, stop: int) -> bool:
    """Allot and zero memory from `start` to `stop` for an MCU row of blocks and masks; return whether it suffices."""
    free = start
    for component in range(memory.header.components):
        plane, part = memory.planes[component], scans.parts[component]
        columns = memory.grid.mcus_across * memory.header.across[component]
        part.first, part.wanted = signed(0), columns
        if not memory.job.judge:
            part.first = plane.first_column
            part.wanted = plane.last_column - plane.first_column + 1
        part.block_row_bytes = part.wanted * BLOCK_BYTES
        part.mask_row_bytes = columns * MASK_BYTES
        part.blocks = free
        free += memory.header.down[component] * part.block_row_bytes
        part.masks = free
        free += memory.header.down[component] * part.mask_row_bytes
    if free > stop:
        return False
    for at in range(start, free, 8):
        store_i64(at, 0)
    scans.spare[:] = 0
    return True


@inlined
def _decode_rows(address: int, memory: Any, scans: Any, own: int) -> int:
    grid, judge = memory.grid, memory.job.judge
    for row in range(grid.mcus_down if judge else grid.last_mcu_row + 1):
        _clear_masks(memory.header, scans)
        for number in range(scans.num_scans):
            status = _read_row(own + FIRST_SCAN + number * SCAN_BYTES, row, memory, scans)
            if status != GOOD:
                return status
        if not _invert_row(row, memory, scans):
            return BAD_NUMBER
        if grid.first_mcu_row <= row <= grid.last_mcu_row:
            write_rows(address, row)
    return _check_ends(scans) if judge or grid.last_mcu_row == grid.mcus_down - 1 else GOOD


@inlined
def _check_ends(scans: Any) -> int:
    """Return GOOD if every scan, whose MCUs were all read, ends after its last MCU; else another status."""
    for number in range(scans.num_scans):
        scan = scans.scans[number]
        status = end_interval(scan.feed)
        if status != GOOD:
            return status
        if scan.feed.source != scan.end or scan.empty != 0:
            return LEFT_OVER
    return GOOD


@inlined
def _clear_masks(header: Any, scans: Any) -> None:
    for component in range(header.components):
        part = scans.parts[component]
        for at in range(0, header.down[component] * part.mask_row_bytes, MASK_BYTES):
            store_i64(part.masks + at, 0)


@inner
def _read_row(address: int, mcu_row: int, memory: Any, scans: Any) -> int:
    """Read the codes of a scan that belong to an MCU row of the image and return a status."""
    scan = scan_at(address)
    for line in range(scan.height):
        row = mcu_row * scan.height + line
        if row >= scan.rows:
            break
        for number in range(scan.num_units):
            _aim(scan.units[number], mcu_row, line, memory, scans)
        column = signed(0)
        while column < scan.columns:
            if scan.intervals.left == 0:
                status = LEFT_OVER if scan.empty else next_interval(scan.feed, scan.intervals)
                if status != GOOD:
                    return status
            stop = min(scan.columns, column + scan.intervals.left)
            status = signed(read_columns(address, column, stop))
            if status != GOOD:
                return status
            scan.intervals.left -= stop - column
            column = stop
    return GOOD


@inlined
def _aim(unit: Any, mcu_row: int, line: int, memory: Any, scans: Any) -> None:
    """Set the output addresses of a row's blocks, and which blocks are needed."""
    plane, part = memory.planes[unit.component], scans.parts[unit.component]
    line += unit.row
    row = mcu_row * memory.header.down[unit.component] + line
    unit.first, unit.wanted = part.first, signed(0)
    if memory.job.judge or plane.first_row <= row <= plane.last_row:
        unit.wanted = part.wanted
    unit.out = part.blocks + line * part.block_row_bytes
    unit.masks = part.masks + line * part.mask_row_bytes


@inner
def _invert_row(mcu_row: int, memory: Any, scans: Any) -> bool:
    """Transform the needed blocks of an MCU row and check the others; return whether all coefficients were in range."""
    wide = signed(0)
    for component in range(memory.header.components):
        plane, part = memory.planes[component], scans.parts[component]
        steps = signed(scans.quant[component].ctypes.data)
        for line in range(memory.header.down[component]):
            row = mcu_row * memory.header.down[component] + line
            is_inside = plane.first_row <= row <= plane.last_row
            if not (is_inside or memory.job.judge):
                continue
            block = part.blocks + line * part.block_row_bytes
            masks = part.masks + line * part.mask_row_bytes + MASK_BYTES * part.first
            out = plane.pixels + (1 + line * plane.side) * plane.row_bytes + MARGIN
            for column in range(part.first, part.first + part.wanted):
                if is_inside and plane.first_column <= column <= plane.last_column:
                    mask = np.uint64(load_i64(masks))
                    last = 0 if mask == _NONE else 1 if mask < _PAST_CORNER else CORNER
                    invert(plane.side, last, block, steps, out, plane.row_bytes)
                    out += plane.side
                else:
                    pass_over(block, steps)
                wide |= load_i64(block + OVERFLOW) | load_i64(block + OVERFLOW + 8)
                block += BLOCK_BYTES
                masks += MASK_BYTES
    return wide == 0


decode_scans = separate(_decode_scans, deferred=SEVERAL_SCANS)
