"""Noting a checkpoint where reading stands, and going on reading at one; their layout is `checkpoints.CHECKPOINT`."""

from typing import Any

import numpy as np

from dali_pipes.jpeg.bitstream import CLEAN_BYTES, MCU_BYTES, begin, top_up
from dali_pipes.jpeg.memory import Record
from dali_pipes.jpeg.status import CUT_SHORT, GOOD, SCRATCH_SHORT, WRONG_CHECKPOINT
from gpu_aug.compiled.jit import (
    has_ff,
    inlined,
    kernel,
    load_be64,
    load_i32,
    load_u8,
    signed,
    store_i16,
)

ROW_BYTES = 10
"""Bytes of a checkpoint."""

_LEAST_BYTES = 64  # cleaned at a time, beyond what an MCU may need
_BIT_MASK = 0xFFFFFFFF  # a checkpoint has 32 bits for its place


@kernel
def note_checkpoint(memory: Record) -> int:
    """Write the checkpoint before the next MCU, whose number is a multiple of the job's `every`; returns a status.

    A scan of 512 MB or more has none.
    """
    feed, job, intervals = memory.feed, memory.job, memory.intervals
    number = intervals.mcu // job.every - 1
    if number >= job.num_checkpoints:
        return SCRATCH_SHORT
    clean = feed.cleaned - (feed.filled - feed.position)
    bits = 8 * clean - feed.bits
    if bits > 8 * feed.cleaned:
        return CUT_SHORT
    _walk(feed, bits >> 3)
    bit = 8 * (feed.walked_to - job.data - memory.header.scan) + (bits & 7)
    if bit > _BIT_MASK:  # all that follow, too
        job.noted = 0
        return GOOD
    row = job.checkpoints + ROW_BYTES * number
    store_i16(row, bit)
    store_i16(row + 2, bit >> 16)
    for component in range(3):
        store_i16(row + 4 + 2 * component, feed.prediction[component])
    job.noted = number + 1
    return GOOD


@kernel
def seek(memory: Record, number: int, last: int) -> int:
    """Go on at a checkpoint, as if all in front of it had been read.

    Args:
        memory: The memory.
        number: Of the checkpoint.
        last: MCU behind those that will be read from there on; only so much is made ready.

    Returns:
        A status: WRONG_CHECKPOINT where the checkpoint lies outside the scan.
    """
    feed, job, intervals = memory.feed, memory.job, memory.intervals
    row = job.checkpoints + ROW_BYTES * number
    bit = load_i32(row) & _BIT_MASK
    source = job.data + memory.header.scan + (bit >> 3)
    if source > feed.stop - 2:
        return WRONG_CHECKPOINT
    begin(feed, source)
    first, second = load_i32(row + 4), load_i32(row + 6)
    feed.prediction[0] = first << 48 >> 48
    feed.prediction[1] = first >> 16
    feed.prediction[2] = second >> 16
    mcu = (number + 1) * job.every
    intervals.mcu = mcu
    intervals.number = mcu // intervals.mcus
    intervals.left = (intervals.number + 1) * intervals.mcus - mcu
    feed.limit = feed.clean + _bytes_until(job, bit, last)
    top_up(feed)
    if bit & 7:  # the front of the first byte belongs to what was skipped
        feed.bits = 8 - (bit & 7)
        feed.buffer = signed(load_be64(feed.position) >> np.uint64(56) << np.uint64(56 + (bit & 7)))
        feed.position += 1
    return GOOD


@inlined
def _bytes_until(job: Any, bit: int, last: int) -> int:
    """How many bytes to clean for the MCUs from a checkpoint up to another MCU, and what reading ahead takes."""
    behind = (last - 1) // job.every
    if behind >= job.num_checkpoints:
        return CLEAN_BYTES
    end = load_i32(job.checkpoints + ROW_BYTES * behind) & _BIT_MASK
    wanted = ((end - bit) >> 3) + _LEAST_BYTES
    return signed(min(max(wanted, _LEAST_BYTES) + MCU_BYTES, CLEAN_BYTES))


@kernel
def _walk(feed: Record, clean: int) -> None:
    """Follow the file to where a clean byte of this interval lies, from where the last one was found."""
    rest, source = clean - feed.walked, feed.walked_to
    while rest > 0:
        if rest >= 8 and source + 8 <= feed.stop and not has_ff(load_be64(source)):
            source += 8
            rest -= 8
        else:
            source += 2 if load_u8(source) == 0xFF else 1
            rest -= 1
    feed.walked, feed.walked_to = clean, source
