"""Read the scan headers of a file, and check that its scans bring all coefficients.

Source: ITU-T T.81, annexes B.2.3 and G.1.1.1. Files that make libjpeg warn are refused.
"""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import set_buffer
from dali_pipes.jpeg.file_bytes import be16, find_marker
from dali_pipes.jpeg.header import MISSING, SOF2, SOS, read_segments
from dali_pipes.jpeg.huffman import ZIGZAG
from dali_pipes.jpeg.huffman_tables import (
    AC_FIRST,
    AC_REFINE,
    DC_FIRST,
    DC_REFINE,
    MOST,
    SEQUENTIAL,
    build_table,
    store_table,
    table_at,
)
from dali_pipes.jpeg.mcus import place_block, set_ac_table, set_dc_table
from dali_pipes.jpeg.memory import MAX_BLOCKS, memory_at
from dali_pipes.jpeg.progressive.memory import MOST_SCANS, MOST_TABLES, UNKNOWN, scans_at
from dali_pipes.jpeg.scan import NEVER
from dali_pipes.jpeg.status import (
    BAD_TABLE,
    GOOD,
    MANY_SCANS,
    NOT_SUPPORTED,
    ODD_SCANS,
    UNFINISHED,
)
from gpu_aug.compiled.jit import inner, load_u8, separate, signed

_SMOOTHED = 10  # libjpeg estimates missing ones among the first ten coefficients
_MOST_LOW = 13  # ITU-T T.81, table B.3
_BEHIND = 128  # offset, just behind a block, to which coefficients outside the band are written


def _read_scans(address: int, own: int) -> int:
    """Find all scans of a file, and prepare to read them.

    Args:
        address: Address of the decoder's memory; the header was read up to the first scan.
        own: Address of the memory into which the records of the scans are written.

    Returns:
        A status of `dali_pipes.jpeg.status`.
    """
    memory, scans = memory_at(address), scans_at(own)
    data = memory.job.data
    scans.num_scans = scans.num_tables = 0
    scans.known[:] = UNKNOWN
    position = memory.header.scan
    while True:
        status, position = read_segments(memory, position)
        if status != GOOD:
            return status
        if be16(data + position) != 0xFF00 | SOS:
            return _check_complete(memory.header, scans)
        size = be16(data + position + 2)
        status = _read_scan(data + position + 4, size - 2, memory, scans)
        if status != GOOD:
            return status
        position = scans.scans[scans.num_scans - 1].end - data


@inner
def _check_complete(header: Any, scans: Any) -> int:
    for component in range(header.components):
        for coefficient in range(_SMOOTHED):
            if scans.known[component, coefficient] != 0:
                return UNFINISHED
    return GOOD


@inner
def _read_scan(body: int, size: int, memory: Any, scans: Any) -> int:
    """Read a scan header and make its tables, and return a status."""
    header = memory.header
    components = signed(load_u8(body))
    if not (1 <= components <= header.components and size == 4 + 2 * components):
        return ODD_SCANS
    if scans.num_scans >= MOST_SCANS:
        return MANY_SCANS
    scan = scans.scans[scans.num_scans]
    scans.num_scans += 1
    tail = body + 1 + 2 * components
    scan.first, scan.last = signed(load_u8(tail)), signed(load_u8(tail + 1))
    high, scan.low = signed(load_u8(tail + 2)) >> 4, signed(load_u8(tail + 2)) & 15
    status = _find_kind(scan, high, components, header.frame == SOF2)
    scan.num_units, component = 0, -1
    for number in range(components):
        name, tables = load_u8(body + 1 + 2 * number), signed(load_u8(body + 2 + 2 * number))
        component = _next_component(header, component, signed(name))
        if status == GOOD:
            status = _note_bits(scans, scan, component, high)
        if status == GOOD:
            status = _latch_steps(memory, scans, scan, component)
        if status == GOOD:
            status = _add_units(memory, scans, scan, component, tables, components == 1)
    if status != GOOD:
        return status
    _set_extent(header, scan, components == 1, component)
    set_buffer(scan.feed, scan.clean_bytes)
    scan.feed.source, scan.feed.stop = body + size, memory.job.data + memory.job.length
    scan.intervals.mcus = header.restart if header.restart else NEVER
    scan.end = _find_end(scan.feed.source, scan.feed.stop)
    return GOOD


@inner
def _find_kind(scan: Any, high: int, components: int, progressive: bool) -> int:
    first, last, low = scan.first, scan.last, scan.low
    if not progressive:
        scan.kind = SEQUENTIAL
        return GOOD if first == 0 and last == 63 and high == 0 and low == 0 else ODD_SCANS
    if low > _MOST_LOW or (high != 0 and high != low + 1):
        return ODD_SCANS
    if first == 0:
        scan.kind = DC_REFINE if high else DC_FIRST
        return GOOD if last == 0 else ODD_SCANS
    scan.kind = AC_REFINE if high else AC_FIRST
    return GOOD if first <= last <= 63 and components == 1 else ODD_SCANS


@inner
def _next_component(header: Any, before: int, name: int) -> int:
    """Return the index of the component with identifier `name` after component `before`; -1 if no later one has it."""
    for component in range(before + 1, header.components):
        if header.ids[component] == name:
            return component
    return -1


@inner
def _note_bits(scans: Any, scan: Any, component: int, high: int) -> int:
    """Record the bits that a scan brings, if they directly follow the bits of earlier scans, and return a status."""
    if component < 0 or (scan.first > 0 and scans.known[component, 0] == UNKNOWN):
        return ODD_SCANS
    for coefficient in range(scan.first, scan.last + 1):
        if scans.known[component, coefficient] != (high if high else UNKNOWN):
            return ODD_SCANS
        scans.known[component, coefficient] = scan.low
    return GOOD


@inner
def _latch_steps(memory: Any, scans: Any, scan: Any, component: int) -> int:
    """Copy a component's quantisation steps at the time of its first scan, like libjpeg, and return a status."""
    if scan.kind not in (DC_FIRST, SEQUENTIAL):
        return GOOD
    number = memory.header.quant[component]
    if number > 3 or memory.quant[number, 0] == 0:
        return BAD_TABLE
    scans.quant[component] = memory.quant[number]
    return GOOD


@inner
def _add_units(memory: Any, scans: Any, scan: Any, component: int, tables: int, alone: bool) -> int:
    """Add a component's blocks to the MCU of a scan and return a status."""
    header, kind = memory.header, scan.kind
    across = 1 if alone else header.across[component]
    down = 1 if alone else header.down[component]
    if scan.num_units + across * down > MAX_BLOCKS:
        return NOT_SUPPORTED
    if tables >> 4 > 3 or tables & 15 > 3:
        return BAD_TABLE
    levels, pairs = signed(0), signed(0)
    if kind in (DC_FIRST, SEQUENTIAL):
        levels = _make_table(scans, memory.huffman[tables >> 4], DC_FIRST, 0)
    if kind not in (DC_FIRST, DC_REFINE):
        pairs = _make_table(scans, memory.huffman[4 + (tables & 15)], kind, scan.low)
    if levels < 0 or pairs < 0:
        return -min(levels, pairs)
    most = (MOST + 1) // max(signed(scans.quant[component, 0]), 1) >> scan.low
    for index in range(across * down):
        unit = scan.units[scan.num_units]
        scan.num_units += 1
        unit.most = most
        place_block(unit, component, index, across)
        if levels:
            set_dc_table(unit, table_at(levels))
        if pairs:
            set_ac_table(unit, table_at(pairs), kind == AC_REFINE)
    return GOOD


@inner
def _make_table(scans: Any, stored: Any, kind: int, low: int) -> int:
    """Make a table for a kind of scan from a stored table; return its address, or a negative status."""
    if stored[0] == MISSING:
        return -BAD_TABLE
    if scans.num_tables >= MOST_TABLES:
        return -MANY_SCANS
    table = scans.tables[scans.num_tables]
    scans.num_tables += 1
    store_table(table, stored)
    address = signed(table.pairs.ctypes.data)
    status = signed(build_table(address, kind, low))
    return address if status == GOOD else -status


@inner
def _set_extent(header: Any, scan: Any, alone: bool, component: int) -> None:
    """Set the number of MCUs of a scan; a scan of one component has only the blocks with pixels."""
    most_across = 8 * max(header.across[0], header.across[1], header.across[2])
    most_down = 8 * max(header.down[0], header.down[1], header.down[2])
    across, down, scan.height = 1, 1, 1
    if alone:
        across, down = header.across[component], header.down[component]
        scan.height = down
    scan.columns = (header.width * across + most_across - 1) // most_across
    scan.rows = (header.height * down + most_down - 1) // most_down
    for coefficient in range(256):
        wanted = scan.first <= coefficient <= scan.last and coefficient > 0
        offset = 2 * signed(ZIGZAG[np.uint64(coefficient & 63)])
        scan.offsets[coefficient] = offset if wanted else _BEHIND


@inner
def _find_end(source: int, stop: int) -> int:
    """Return the address of the next marker that is not a restart marker, or of the last two bytes."""
    while True:
        source = find_marker(source, stop)
        if source >= stop - 2 or be16(source) & 0xFFF8 != 0xFFD0:
            return source
        source += 2


read_scans = separate(_read_scans)
"""`_read_scans` for kernels."""
