"""Move through a scan: from MCU to MCU, to the next restart interval, to a seek point, and to its end."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import CLEAN_BYTES, MCU_BYTES, count_ff, start_feed, top_up
from dali_pipes.jpeg.file_bytes import be16, find_marker
from dali_pipes.jpeg.idct import OVERFLOW
from dali_pipes.jpeg.mcus import read_mcus
from dali_pipes.jpeg.memory import Record, memory_at
from dali_pipes.jpeg.status import (
    BAD_NUMBER,
    CUT_SHORT,
    GOOD,
    LEFT_OVER,
    SCRATCH_SHORT,
    SEEK_POINT,
    WRONG_RESTART,
    WRONG_SEEK_POINT,
)
from gpu_aug.compiled.jit import inlined, inner, load_be64, load_i64, record_at, signed, view_i64

NOWHERE = signed(1 << 40)
"""A column right of any image, where no block is needed."""

NEVER = 1 << 40
"""More MCUs than any image has; used for events that do not occur."""
_RESTART = 0xFFD0
"""The marker RST0; ITU-T T.81, table B.1."""
_END = 0xFFD9
"""The marker EOI; ITU-T T.81, table B.1."""

ROW_BYTES = SEEK_POINT.itemsize
_seek_point_at = record_at(SEEK_POINT)

_LEAST_BYTES = 64  # smallest number of bytes that are prepared beyond an MCU's maximum
_MAX_BIT = 0xFFFFFFFF  # a seek point stores its bit position in 32 bits


@inlined
def start_intervals(memory: Record) -> None:
    """Start before the first MCU of a file."""
    intervals, mcus = memory.intervals, memory.header.restart
    intervals.mcus = mcus if mcus else NEVER
    intervals.left, intervals.number, intervals.mcu = intervals.mcus, 0, 0
    memory.feed.wide, job = 0, memory.job
    job.noted = 0
    intervals.until = job.every if job.judge and job.every else NEVER


@inner
def _note_seek_point(memory: Record) -> int:
    """Write the seek point before the next MCU, whose index is a multiple of the job's `every`; return a status.

    No seek points are written for a scan of 512 MB or more.
    """
    feed, job, intervals = memory.feed, memory.job, memory.intervals
    number = intervals.mcu // job.every - 1
    if number >= job.num_seek_points:
        return SCRATCH_SHORT
    bits = 8 * feed.position - feed.bits
    if bits > 8 * feed.filled:
        return CUT_SHORT
    position = bits >> 3
    feed.walked_to += position - feed.walked + count_ff(feed.walked, position)
    feed.walked = position
    bit = 8 * (feed.walked_to - job.data - memory.header.scan) + (bits & 7)
    if bit > _MAX_BIT:  # all following positions would be too large, too
        job.noted = 0
        return GOOD
    row = _seek_point_at(job.seek_points + ROW_BYTES * number)
    row.bit = bit
    for component in range(3):
        row.dc[component] = feed.prediction[component]
    job.noted = number + 1
    return GOOD


@inner
def read_on(address: int, column: int, count: int) -> int:
    """Read MCUs that lie in one row, or skip any number of MCUs with a column of NOWHERE or more.

    Args:
        address: Address of the memory.
        column: Column of the first MCU.
        count: Count of MCUs to read or skip.

    Returns:
        A status.
    """
    memory = memory_at(address)
    intervals = memory.intervals
    while count > 0:
        if intervals.left == 0:
            status = next_interval(memory.feed, intervals)
            if status != GOOD:
                return status
        if intervals.until == 0:
            status = _note_seek_point(memory)
            if status != GOOD:
                return status
            intervals.until = memory.job.every
        some = min(count, min(intervals.left, intervals.until))
        status = signed(read_mcus(address, column, column + some))
        if status != GOOD:
            return status
        intervals.left -= some
        intervals.until -= some
        intervals.mcu += some
        column += some
        count -= some
    return GOOD


@inner
def _seek(memory: Record, number: int, last: int) -> int:
    """Continue at a seek point, as if everything before it had been read.

    Args:
        memory: The memory.
        number: Index of the seek point.
        last: The MCU after the last one to read from there on; only their bytes are prepared.

    Returns:
        A status: WRONG_SEEK_POINT if the seek point lies outside the scan.
    """
    feed, job, intervals = memory.feed, memory.job, memory.intervals
    row = _seek_point_at(job.seek_points + ROW_BYTES * number)
    bit = signed(row.bit)
    source = job.data + memory.header.scan + (bit >> 3)
    if source > feed.stop - 2:
        return WRONG_SEEK_POINT
    start_feed(feed, source)
    for component in range(3):
        feed.prediction[component] = row.dc[component]
    mcu = (number + 1) * job.every
    intervals.mcu = mcu
    intervals.number = mcu // intervals.mcus
    intervals.left = (intervals.number + 1) * intervals.mcus - mcu
    feed.limit = feed.clean + _bytes_until(job, bit, last)
    top_up(feed)
    if bit & 7:  # the first bits of the byte belong to skipped MCUs
        feed.bits = 8 - (bit & 7)
        feed.buffer = signed(load_be64(feed.position) >> np.uint64(56) << np.uint64(56 + (bit & 7)))
        feed.position += 1
    return GOOD


@inlined
def _bytes_until(job: Any, bit: int, last: int) -> int:
    """Return how many bytes to prepare from a seek point to another MCU, including those that are read ahead."""
    behind = (last - 1) // job.every
    if behind >= job.num_seek_points:
        return CLEAN_BYTES
    end = signed(_seek_point_at(job.seek_points + ROW_BYTES * behind).bit)
    wanted = ((end - bit) >> 3) + _LEAST_BYTES
    return signed(min(max(wanted, _LEAST_BYTES) + MCU_BYTES, CLEAN_BYTES))


@inner
def skip_mcus(address: int, count: int, then: int) -> int:
    """Skip MCUs of a scan, and return a status.

    If the file is not judged, MCUs before a seek point and MCUs of complete restart intervals are not read.

    Args:
        address: Address of the memory.
        count: Count of MCUs to skip.
        then: Count of MCUs that will be read after them.

    Returns:
        A status.
    """
    memory = memory_at(address)
    intervals, job = memory.intervals, memory.job
    if job.judge:
        return signed(read_on(address, NOWHERE, count))
    if job.num_seek_points and job.every > 0:
        target = intervals.mcu + count
        number = min(target // job.every, job.num_seek_points) - 1
        if (number + 1) * job.every > intervals.mcu:
            status = _seek(memory, number, target + then)
            if status != GOOD:
                return status
            count = target - intervals.mcu
    if count > intervals.left:
        count -= intervals.left
        jumps = (count - 1) // intervals.mcus
        offsets = view_i64(job.offsets, (job.num_offsets,))
        status = _jump(memory.feed, intervals, 1 + jumps, job.data, offsets)
        if status != GOOD:
            return status
        count -= jumps * intervals.mcus
    return signed(read_on(address, NOWHERE, count))


@inlined
def check_end(feed: Record) -> int:
    """Return GOOD if all bits are read and the end marker follows; else another status."""
    status = end_interval(feed)
    if status != GOOD:
        return status
    return GOOD if _marker(feed.source, feed.stop) == _END else LEFT_OVER


@inlined
def check_range(memory: Record) -> int:
    """Return BAD_NUMBER if a coefficient that was read is out of range, else GOOD."""
    noted = signed(memory.coefficients.ctypes.data) + OVERFLOW
    wide = load_i64(noted) | load_i64(noted + 8) | memory.feed.wide
    return BAD_NUMBER if wide else GOOD


@inlined
def next_interval(feed: Record, intervals: Record) -> int:
    """Continue after the restart marker, which must be next, and return a status."""
    status = end_interval(feed)
    if status != GOOD:
        return status
    return _start_interval(feed, intervals, intervals.number + 1)


@inlined
def _start_interval(feed: Record, intervals: Record, number: int) -> int:
    """Read the restart marker at the source, and reset the decoder for the interval after it; returns a status."""
    if _marker(feed.source, feed.stop) != _RESTART + (number - 1) % 8:
        return WRONG_RESTART
    start_feed(feed, feed.source + 2)
    intervals.number, intervals.left = number, intervals.mcus
    intervals.mcu = number * intervals.mcus
    return GOOD


@inner
def end_interval(feed: Record) -> int:
    """Return GOOD if all bits before a marker are read, except fill bits of the last byte; else another status."""
    unread = feed.filled - (feed.position - (feed.bits >> 3))
    if unread < 0:
        return CUT_SHORT
    if unread == 0 and not feed.ended:
        feed.position, feed.bits, feed.buffer = feed.filled, 0, 0
        top_up(feed)
        unread = feed.filled - feed.clean
    return GOOD if unread == 0 else LEFT_OVER


@inner
def _jump(feed: Record, intervals: Record, count: int, file: int, offsets: Any) -> int:
    target = intervals.number + count
    if offsets.size > 0:
        if target >= offsets.size:
            return WRONG_RESTART
        source = file + offsets[target] - 2
        if source < feed.source or source > feed.stop - 2:
            return WRONG_RESTART
        feed.source = source
        return _start_interval(feed, intervals, target)
    for number in range(intervals.number + 1, target + 1):
        feed.source = find_marker(feed.source, feed.stop)
        status = _start_interval(feed, intervals, number)
        if status != GOOD:
            return status
    return GOOD


@inlined
def _marker(source: int, stop: int) -> int:
    """Return the marker at an address; 0 beyond the end of the file."""
    if source + 2 > stop:
        return 0
    return be16(source)
