"""Which stretches of a scan's codes a crop needs, where they lie in the file, and their bytes in the arena.

A unit is what is decoded by itself: the MCUs of a restart interval, or those between two checkpoints.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import raw_memcpy

from dali_pipes.decode.cuda_jpeg.records import ANY_REST, INTERVAL
from dali_pipes.jpeg.checkpoints import CHECKPOINT
from dali_pipes.jpeg.status import CUT_SHORT, GOOD, WRONG_RESTART
from gpu_aug.compiled.jit import (  # fmt: skip
    has_ff,
    inlined,
    intrinsic_of,
    kernel,
    load_be64,
    load_u8,
    record_at,
    signed,
)

_interval_at, _checkpoint_at = record_at(INTERVAL), record_at(CHECKPOINT)
_ROW_BYTES = CHECKPOINT.itemsize
_RESTART, _END = 0xD0, 0xD9


def _copying(_context: Any, *_arguments: Any) -> Any:
    def generate(target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, source = (builder.inttoptr(one, pointer) for one in arguments[:2])
        raw_memcpy(builder, to, source, arguments[2], 1)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


copy_bytes = intrinsic_of(_copying, 3)
"""Copy bytes: takes the address where they go, the one where they are, and their number."""


@kernel
def next_needed(mcu: int, grid: Any) -> int:
    """The first MCU from `mcu` on that the crop needs; behind all MCUs where there is none."""
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


@kernel
def find_restarts(data: int, scan: int, length: int, starts: Any) -> int:
    """Find where the restart intervals of a scan begin.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        starts: int64 [expected number], written: offset of each interval's first byte.

    Returns:
        A status: WRONG_RESTART where markers are missing or out of order.
    """
    starts[0] = scan
    position = scan
    for number in range(1, len(starts)):
        position = find_marker(data, position, length)
        marker = load_u8(data + position + 1)
        if marker != _RESTART + (number - 1) % 8:
            return WRONG_RESTART
        position += 2
        starts[number] = position
    return GOOD


@kernel
def find_marker(data: int, position: int, length: int) -> int:
    """The offset of the next marker; the file's last two bytes are one."""
    while position + 2 < length:
        if position + 8 < length and not has_ff(load_be64(data + position)):
            position += 8
        elif load_u8(data + position) == 0xFF and load_u8(data + position + 1) != 0:
            break
        else:
            position += 1
    return signed(min(position, length - 2))


@inlined
def restart_unit(data: int, scan: int, length: int, starts: Any, number: int, out: int) -> int:
    """Write where a restart interval lies, in bytes of the file; returns a status.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        starts: int64 [n]: where the intervals are said to begin.
        number: The interval's.
        out: Address of the INTERVAL.
    """
    interval = _interval_at(out)
    begin = starts[number]
    if begin < scan or begin > length - 2:
        return WRONG_RESTART
    if number + 1 < len(starts):
        end, marker = starts[number + 1] - 2, _RESTART + number % 8
    else:
        end, marker = find_marker(data, begin, length), _END
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
    """Whether the marker at an address is the one in front of a restart interval."""
    return number > 0 and load_u8(address) == 0xFF and load_u8(address + 1) == _RESTART + (number - 1) % 8  # fmt: skip


@inlined
def checkpoint_unit(data: int, scan: int, length: int, file: Any, number: int, out: int) -> int:
    """Write where the MCUs from one checkpoint to the next lie, in bytes of the file; returns a status.

    Args:
        data: Address of the file.
        scan: Offset of the scan's first byte.
        length: Bytes of the file.
        file: FILE of `plan.py`, whose checkpoints are known.
        number: 0 for what lies in front of the first checkpoint.
        out: Address of the INTERVAL.
    """
    interval = _interval_at(out)
    bit, end_bit = signed(0), signed(0)
    interval.level[:] = 0
    if number:
        row = _checkpoint_at(file.checkpoints + (number - 1) * _ROW_BYTES)
        bit = signed(row.bit)
        for component in range(3):
            interval.level[component] = row.dc[component]
    begin = scan + (bit >> 3)
    if begin + 2 > length:
        return CUT_SHORT
    if bit & 7 == 0 and bit and load_u8(data + begin) == 0 and load_u8(data + begin - 1) == 0xFF:
        begin += 1  # the zero that is stuffed behind the byte before
    if number < file.num_checkpoints:
        row = _checkpoint_at(file.checkpoints + number * _ROW_BYTES)
        end_bit = signed(row.bit)
        end = scan + ((end_bit + 7) >> 3)
        interval.rest = (-end_bit) & 7
        for component in range(3):
            interval.after[component] = row.dc[component]
    else:
        end = find_marker(data, begin, length)
        interval.rest = ANY_REST
        if load_u8(data + end + 1) != _END or load_u8(data + end - 1) == 0xFF:
            return WRONG_RESTART
    interval.begin, interval.end, interval.skip = begin, end, bit & 7
    return GOOD if begin < end <= length - 2 else CUT_SHORT
