"""From one restart interval to the next, and to the end of the scan; intervals that nobody needs are jumped over."""

from typing import Any

from dali_pipes.jpeg.bitstream import begin, top_up
from dali_pipes.jpeg.idct import OVERFLOW
from dali_pipes.jpeg.mcus import read_mcus
from dali_pipes.jpeg.memory import Record, memory_at
from dali_pipes.jpeg.seek import note_checkpoint, seek
from dali_pipes.jpeg.status import BAD_NUMBER, CUT_SHORT, GOOD, LEFT_OVER, WRONG_RESTART
from gpu_aug.compiled.jit import (
    has_ff,
    inlined,
    kernel,
    load_be64,
    load_i64,
    load_u8,
    signed,
    view_i64,
)

NOWHERE = signed(1 << 40)
"""A column so far out that no block there is wanted."""

NEVER = 1 << 40  # more MCUs than any image has
_RESTART = 0xFFD0
_END = 0xFFD9


@inlined
def start_intervals(memory: Record) -> None:
    """Be in front of the first MCU of a file."""
    intervals, mcus = memory.intervals, memory.header.restart
    intervals.mcus = mcus if mcus else NEVER
    intervals.left, intervals.number, intervals.mcu = intervals.mcus, 0, 0
    memory.feed.wide, job = 0, memory.job
    job.noted = 0
    intervals.until = job.every if job.judge and job.every else NEVER


@kernel
def read_on(address: int, column: int, count: int) -> int:
    """Read MCUs that lie in one row, or anywhere from NOWHERE on.

    Args:
        address: Address of the memory.
        column: Column of the first MCU.
        count: How many.

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
            status = note_checkpoint(memory)
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


@kernel
def skip(address: int, count: int, then: int) -> int:
    """Pass over MCUs.

    Where nothing is to be judged, those in front of a checkpoint are not read, nor are those of whole restart intervals.

    Args:
        address: Address of the memory.
        count: How many.
        then: How many will be read behind them.

    Returns:
        A status.
    """
    memory = memory_at(address)
    intervals, job = memory.intervals, memory.job
    if job.judge:
        return signed(read_on(address, NOWHERE, count))
    if job.num_checkpoints and job.every > 0:
        target = intervals.mcu + count
        number = min(target // job.every, job.num_checkpoints) - 1
        if (number + 1) * job.every > intervals.mcu:
            status = seek(memory, number, target + then)
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
def finish(feed: Record) -> int:
    """Whether the scan ends where it should: all bits are read, and the end marker follows."""
    status = end_interval(feed)
    if status != GOOD:
        return status
    return GOOD if _marker(feed.source, feed.stop) == _END else LEFT_OVER


@inlined
def check_range(memory: Record) -> int:
    """Whether a number in what was read was out of range: returns GOOD or BAD_NUMBER."""
    noted = signed(memory.coefficients.ctypes.data) + OVERFLOW
    wide = load_i64(noted) | load_i64(noted + 8) | memory.feed.wide
    return BAD_NUMBER if wide else GOOD


@inlined
def next_interval(feed: Record, intervals: Record) -> int:
    """Go on behind the restart marker that must come now; returns a status."""
    status = end_interval(feed)
    if status != GOOD:
        return status
    return _start_interval(feed, intervals, intervals.number + 1)


@inlined
def _start_interval(feed: Record, intervals: Record, number: int) -> int:
    """Begin an interval whose source is at the restart marker."""
    if _marker(feed.source, feed.stop) != _RESTART + (number - 1) % 8:
        return WRONG_RESTART
    begin(feed, feed.source + 2)
    intervals.number, intervals.left = number, intervals.mcus
    intervals.mcu = number * intervals.mcus
    return GOOD


@kernel
def end_interval(feed: Record) -> int:
    """Whether all bits up to a marker are read, but for those that fill the last byte."""
    unread = feed.filled - (feed.position - (feed.bits >> 3))
    if unread < 0:
        return CUT_SHORT
    if unread == 0 and not feed.ended:
        feed.position, feed.bits, feed.buffer = feed.filled, 0, 0
        top_up(feed)
        unread = feed.filled - feed.clean
    return GOOD if unread == 0 else LEFT_OVER


@kernel
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
def find_marker(source: int, stop: int) -> int:
    """The address of the next marker, or of the last two bytes."""
    while source + 2 < stop:
        if source + 8 < stop and not has_ff(load_be64(source)):
            source += 8
        elif load_u8(source) == 0xFF and load_u8(source + 1) != 0:
            return source
        else:
            source += 1
    return stop - 2


@inlined
def _marker(source: int, stop: int) -> int:
    if source + 2 > stop:
        return 0
    return signed(load_u8(source)) << 8 | signed(load_u8(source + 1))
