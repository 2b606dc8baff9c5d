"""From one restart interval to the next, and to the end of the scan; intervals that nobody needs are jumped over."""

from typing import Any

from dali_pipes.jpeg import job as j
from dali_pipes.jpeg.feed import (
    BITS,
    BUFFER,
    CLEAN,
    ENDED,
    FILLED,
    POSITION,
    SOURCE,
    STATE_LENGTH,
    STOP,
    begin,
    top_up,
)
from dali_pipes.jpeg.mcus import read_mcus
from dali_pipes.jpeg.reasons import CUT_SHORT, GOOD, LEFT_OVER, WRONG_RESTART
from gpu_aug.compiled.jit import has_ff, inlined, kernel, load_be64, load_u8, signed, view_i64

# Places in `intervals`, int64 [3].
MCUS, LEFT, NUMBER = range(3)
"""MCUs to an interval (a huge number without restarts); those left in this one; its number, from 0."""

NOWHERE = signed(1 << 40)
"""A column so far out that no block there is wanted."""

_NEVER = 1 << 40
_RESTART = 0xFFD0
_END = 0xFFD9


@kernel
def start_intervals(address: int, mcus: int) -> None:
    """Be in front of the first MCU of a file with so many MCUs to an interval, 0 for all of them."""
    intervals = view_i64(address, (3,))
    intervals[MCUS] = mcus if mcus else _NEVER
    intervals[LEFT], intervals[NUMBER] = intervals[MCUS], 0


@kernel
def read_on(job: Any, num_blocks: int, column: int, count: int) -> int:
    """Read MCUs that lie in one row, or anywhere from NOWHERE on.

    Args:
        job: int64 [JOB_FIELDS], see ``job.py``.
        num_blocks: Blocks of an MCU.
        column: Column of the first MCU.
        count: How many.

    Returns:
        A status.
    """
    memory = job[j.SCRATCH]
    state = view_i64(memory + j.STATE, (STATE_LENGTH,))
    intervals = view_i64(memory + j.INTERVALS, (3,))
    while count > 0:
        if intervals[LEFT] == 0:
            status = _next_interval(state, intervals)
            if status != GOOD:
                return status
        some = min(count, intervals[LEFT])
        end = column + some
        status = signed(
            read_mcus(
                memory + j.STATE, memory + j.BLOCKS, num_blocks, column, end, memory + j.BLOCK
            )
        )
        if status != GOOD:
            return status
        intervals[LEFT] -= some
        column += some
        count -= some
    return GOOD


@kernel
def skip(job: Any, num_blocks: int, count: int) -> int:
    """Pass over MCUs, those of whole restart intervals without reading them.

    Args:
        job: int64 [JOB_FIELDS], see ``job.py``.
        num_blocks: Blocks of an MCU.
        count: How many MCUs.

    Returns:
        A status.
    """
    memory = job[j.SCRATCH]
    intervals = view_i64(memory + j.INTERVALS, (3,))
    if count > intervals[LEFT]:
        state = view_i64(memory + j.STATE, (STATE_LENGTH,))
        count -= intervals[LEFT]
        jumps = (count - 1) // intervals[MCUS]
        offsets = view_i64(job[j.OFFSETS], (job[j.NUM_OFFSETS],))
        status = _jump(state, intervals, 1 + jumps, job[j.DATA], offsets)
        if status != GOOD:
            return status
        count -= jumps * intervals[MCUS]
    return signed(read_on(job, num_blocks, NOWHERE, count))


@inlined
def finish(state: Any) -> int:
    """Whether the scan ends where it should: all bits are read, and the end marker follows."""
    status = _end_interval(state)
    if status != GOOD:
        return status
    return GOOD if _marker(state[SOURCE], state[STOP]) == _END else LEFT_OVER


@inlined
def _next_interval(state: Any, intervals: Any) -> int:
    status = _end_interval(state)
    if status != GOOD:
        return status
    return _start_interval(state, intervals, intervals[NUMBER] + 1)


@inlined
def _start_interval(state: Any, intervals: Any, number: int) -> int:
    """Begin an interval of which SOURCE is at the restart marker."""
    if _marker(state[SOURCE], state[STOP]) != _RESTART + (number - 1) % 8:
        return WRONG_RESTART
    begin(state, state[SOURCE] + 2)
    intervals[NUMBER], intervals[LEFT] = number, intervals[MCUS]
    return GOOD


@kernel
def _end_interval(state: Any) -> int:
    """Whether all bits up to a marker are read, but for those that fill the last byte."""
    unread = state[FILLED] - (state[POSITION] - (state[BITS] >> 3))
    if unread < 0:
        return CUT_SHORT
    if unread == 0 and not state[ENDED]:
        state[POSITION], state[BITS], state[BUFFER] = state[FILLED], 0, 0
        top_up(state)
        unread = state[FILLED] - state[CLEAN]
    return GOOD if unread == 0 else LEFT_OVER


@kernel
def _jump(state: Any, intervals: Any, count: int, file: int, offsets: Any) -> int:
    target = intervals[NUMBER] + count
    if offsets.size > 0:
        if target >= offsets.size:
            return WRONG_RESTART
        source = file + offsets[target] - 2
        if source < state[SOURCE] or source > state[STOP] - 2:
            return WRONG_RESTART
        state[SOURCE] = source
        return _start_interval(state, intervals, target)
    for number in range(intervals[NUMBER] + 1, target + 1):
        state[SOURCE] = _find_marker(state[SOURCE], state[STOP])
        status = _start_interval(state, intervals, number)
        if status != GOOD:
            return status
    return GOOD


@inlined
def _find_marker(source: int, stop: int) -> int:
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
