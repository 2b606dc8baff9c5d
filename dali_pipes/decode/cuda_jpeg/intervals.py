"""Find the independently decodable units of a JPEG scan that a crop needs, and where the file has their codes.

A unit is the MCUs of a restart interval, or the MCUs from one seek point to the next.
"""

from typing import Any

from dali_pipes.decode.cuda_jpeg.records import ANY_REST, INTERVAL
from dali_pipes.jpeg.file_bytes import find_marker
from dali_pipes.jpeg.seek_points import SEEK_POINT
from dali_pipes.jpeg.status import CUT_SHORT, GOOD, WRONG_RESTART
from gpu_aug.compiled.jit import inlined, inner, load_u8, record_at, signed

_interval_at, _seek_point_at = record_at(INTERVAL), record_at(SEEK_POINT)
_ROW_BYTES = SEEK_POINT.itemsize
_RESTART, _END = 0xD0, 0xD9
"""Second bytes of the markers RST0 and EOI; ITU-T T.81, table B.1."""


@inner
def find_next_needed(mcu: int, grid: Any) -> int:
    """Return the first MCU from `mcu` on that the crop needs; the count of all MCUs if it needs no further one."""
    row, column = mcu // grid.mcus_across, mcu % grid.mcus_across
    if row < grid.first_mcu_row:
        row, column = grid.first_mcu_row, grid.first_mcu
    elif column < grid.first_mcu:
        column = grid.first_mcu
    elif column > grid.last_mcu:
        row, column = row + 1, grid.first_mcu
    if row > grid.last_mcu_row:
        return signed(grid.mcus_across * grid.mcus_down)
    return signed(row * grid.mcus_across + column)


@inner
def find_restarts(data: int, scan: int, length: int, starts: Any) -> int:
    """Find the start of each restart interval of a scan, store the starts in `starts`, and return a status.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        starts: int64 [expected count of intervals], written: offset of the first byte of each interval.

    Returns:
        A status; WRONG_RESTART if markers are missing or out of order.
    """
    starts[0] = scan
    position = scan
    for number in range(1, len(starts)):
        position = find_marker(data + position, data + length) - data
        marker = load_u8(data + position + 1)
        if marker != _RESTART + (number - 1) % 8:
            return WRONG_RESTART
        position += 2
        starts[number] = position
    return GOOD


@inlined
def write_restart_unit(
    data: int, scan: int, length: int, starts: Any, number: int, out: int
) -> int:
    """Find the byte range of a restart interval in the file, store it in the record at `out`, and return a status.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        starts: int64 [n], expected offsets of the intervals.
        number: Index of the interval.
        out: Address of the INTERVAL record to write.
    """
    interval = _interval_at(out)
    begin = starts[number]
    if begin < scan or begin > length - 2:
        return WRONG_RESTART
    if number + 1 < len(starts):
        end, marker = starts[number + 1] - 2, _RESTART + number % 8
    else:
        end, marker = find_marker(data + begin, data + length) - data, _END
    if end <= begin or end > length - 2 or load_u8(data + end - 1) == 0xFF:
        return WRONG_RESTART
    if load_u8(data + end) != 0xFF or load_u8(data + end + 1) != marker:
        return WRONG_RESTART
    if begin != scan and not _follows(data + begin - 2, number):
        return WRONG_RESTART
    interval.begin, interval.end = begin, end
    interval.skip, interval.rest = 0, ANY_REST
    interval.level[:] = 0
    return GOOD


@inlined
def _follows(address: int, number: int) -> bool:
    """Return whether the restart marker before interval `number` is at `address`."""
    return number > 0 and load_u8(address) == 0xFF and load_u8(address + 1) == _RESTART + (number - 1) % 8  # fmt: skip


@inlined
def write_seek_point_unit(
    data: int, scan: int, length: int, file: Any, number: int, out: int
) -> int:
    """Find the byte range of the MCUs from one seek point to the next, store it in a record, and return a status.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        file: FILE of `plan.py` with known seek points.
        number: Index of the unit; unit 0 ends at the first seek point.
        out: Address of the INTERVAL record to write.
    """
    interval = _interval_at(out)
    bit, end_bit = signed(0), signed(0)
    interval.level[:] = 0
    if number:
        row = _seek_point_at(file.seek_points + (number - 1) * _ROW_BYTES)
        bit = signed(row.bit)
        for component in range(3):
            interval.level[component] = row.dc[component]
    begin = scan + (bit >> 3)
    if begin + 2 > length:
        return CUT_SHORT
    if bit & 7 == 0 and bit and load_u8(data + begin) == 0 and load_u8(data + begin - 1) == 0xFF:
        begin += 1  # skip the zero that is stuffed after the previous byte, an 0xFF
    if number < file.num_seek_points:
        row = _seek_point_at(file.seek_points + number * _ROW_BYTES)
        end_bit = signed(row.bit)
        end = scan + ((end_bit + 7) >> 3)
        interval.rest = (-end_bit) & 7
        for component in range(3):
            interval.after[component] = row.dc[component]
    else:
        end = find_marker(data + begin, data + length) - data
        interval.rest = ANY_REST
        if load_u8(data + end + 1) != _END or load_u8(data + end - 1) == 0xFF:
            return WRONG_RESTART
    interval.begin, interval.end, interval.skip = begin, end, bit & 7
    return GOOD if begin < end <= length - 2 else CUT_SHORT
