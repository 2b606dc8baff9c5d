"""Decode crops of JPEGs and judge complete files: the entry points of the compiled decoder."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.bitstream import set_buffer, start_feed
from dali_pipes.jpeg.header import MOST_SIDE, read_header
from dali_pipes.jpeg.huffman_tables import build_tables
from dali_pipes.jpeg.layout import allot_memory, check_crop, count_mcus, find_crop
from dali_pipes.jpeg.mcus import aim_blocks, list_blocks
from dali_pipes.jpeg.memory import MEMORY_BYTES, Record, memory_at
from dali_pipes.jpeg.pixels import write_rows
from dali_pipes.jpeg.progressive.decode import decode_scans
from dali_pipes.jpeg.progressive.memory import scratch_bytes as scratch_bytes
from dali_pipes.jpeg.scan import (
    NOWHERE,
    ROW_BYTES,
    check_end,
    check_range,
    read_on,
    skip_mcus,
    start_intervals,
)
from dali_pipes.jpeg.status import GOOD, SCRATCH_SHORT, SEVERAL_SCANS
from gpu_aug.compiled.jit import inlined, kernel, separate, signed

_PER_THREAD = threading.local()
"""The scratch memory of each thread."""


@kernel
def decode_crop(
    data: int,
    length: int,
    crop: tuple[int, int, int, int],
    size: tuple[int, int],
    shrink: int,
    offsets: Any,
    seek_points: tuple[int, int, int],
    judge: bool,
    out: int,
    out_row_bytes: int,
    scratch: Any,
) -> int:
    """Decode a crop of a JPEG, with exactly the pixels of libjpeg-turbo's full image.

    The complete file must be known to be sound, or must be judged here. Judging reads all codes, and returns the same
    status as `check_files`, except if the crop lies outside the image or the size is wrong.

    Args:
        data: Address of the file's bytes.
        length: Length of the file in bytes.
        crop: Top, left, height and width in pixels of the upright image, unscaled, inside the image.
        size: Expected height and width of the upright image.
        shrink: 1, 2, 4 or 8. The image is shrunk by this factor; the output begins at row top // shrink and has
            ceil(height / shrink) rows, columns likewise.
        offsets: int64 [n], offset of each restart interval in the file, or empty; not used if `judge` is set.
        seek_points: Address of SEEK_POINT [n], n, and the interval (MCUs from one to the next). Without `judge` an
            input. With `judge` an output buffer with at least one entry per interval of the file; interval 0 disables
            it.
        judge: Whether to read the complete file. Otherwise only the codes that the crop needs are read.
        out: Address of the first pixel, uint8 [height, width, 3] after shrinking.
        out_row_bytes: Bytes from one output row to the next.
        scratch: uint8 [at least scratch_bytes(...)], aligned to 8 bytes: zeros, or unchanged since an earlier call.

    Returns:
        GOOD (0), or another status (an index into REASONS), with which the bytes of `out` are undefined.
    """
    if scratch.size < MEMORY_BYTES:
        return SCRATCH_SHORT
    address = signed(scratch.ctypes.data)
    job = memory_at(address).job
    job.data, job.length = data, length
    job.top, job.left, job.height, job.width = crop
    job.full_height, job.full_width = size
    job.shrink = shrink
    job.offsets, job.num_offsets = offsets.ctypes.data, offsets.size
    job.seek_points, job.num_seek_points, job.every = seek_points
    job.judge, job.noted = 1 if judge else 0, -1
    job.out, job.row_bytes, job.num_bytes = out, out_row_bytes, scratch.size
    return signed(_decode(address))


@kernel
def check_files(
    files: NDArray[np.int64],
    every: int,
    scratch: NDArray[np.uint8],
    statuses: NDArray[np.int32],
    rows: NDArray[np.void],
    ends: NDArray[np.int64],
) -> None:
    """Read all codes of some files and judge them; unlike decoding, the result does not depend on a crop.

    Args:
        files: int64 [n, 2]: address and length in bytes of each file.
        every: MCUs from one seek point to the next; 0 finds none.
        scratch: The result of `new_scratch`, aligned to 8 bytes: zeros, or unchanged since an earlier call.
        statuses: int32 [n], written: for each file, a status of `dali_pipes.jpeg.status`. GOOD is a JPEG whose scans
            have all codes that they need, and no more.
        rows: SEEK_POINT [at least `count_seek_points`], written: the seek points, one file after the other.
        ends: int64 [n], written: for each file, the end of its seek points in `rows`.
    """
    address = signed(scratch.ctypes.data)
    job = memory_at(address).job
    end = 0
    for number in range(len(statuses)):
        job.data, job.length = files[number, 0], files[number, 1]
        job.top = job.left = job.height = job.width = job.full_height = job.full_width = 0
        job.shrink, job.out, job.row_bytes, job.num_bytes = 1, 0, 0, scratch.size
        job.judge, job.every, job.noted = 1, every, -1
        job.seek_points = signed(rows.ctypes.data) + ROW_BYTES * end
        job.num_seek_points = len(rows) - end
        statuses[number] = _decode(address)
        if statuses[number] == GOOD:
            end += job.noted
        ends[number] = end


@kernel
def count_seek_points(files: NDArray[np.int64], every: int, scratch: NDArray[np.uint8]) -> int:
    """Return how many seek points the files have together if all are sound; arguments as for `check_files`."""
    memory = memory_at(signed(scratch.ctypes.data))
    total = 0
    for number in range(len(files)):
        memory.job.data, memory.job.length = files[number, 0], files[number, 1]
        if read_header(memory) == GOOD:
            total += (count_mcus(memory.header) - 1) // every
    return total


def new_scratch() -> NDArray[np.uint8]:
    """Return zeroed memory for `check_files`, large enough for any image; narrow images touch only a small part."""
    return np.zeros(scratch_bytes(MOST_SIDE), np.uint8)


def thread_scratch() -> NDArray[np.uint8]:
    """Return the calling thread's `new_scratch`, which it reuses: zeroing takes 1.2 ms, reading a photograph 0.4 ms."""
    scratch: NDArray[np.uint8] | None = getattr(_PER_THREAD, "scratch", None)
    if scratch is None:
        scratch = _PER_THREAD.scratch = new_scratch()
    return scratch


def _decode_job(address: int) -> int:
    """Execute the job in the memory: decode a crop, judge the file, or both, and return a status."""
    memory = memory_at(address)
    job = memory.job
    found = read_header(memory)
    status = GOOD if found == SEVERAL_SCANS else found
    if status == GOOD:
        status = check_crop(job, memory.header)
    if status == GOOD and found != SEVERAL_SCANS:
        status = build_tables(memory)
    if status != GOOD:
        return status
    find_crop(memory)
    free = allot_memory(memory, address)
    if free > address + job.num_bytes:
        return SCRATCH_SHORT
    if found == SEVERAL_SCANS:
        return signed(decode_scans(address, free))
    list_blocks(memory)
    memory.coefficients[:] = 0
    feed = memory.feed
    set_buffer(feed, memory.clean_bytes)
    feed.stop = job.data + job.length
    start_feed(feed, job.data + memory.header.scan)
    start_intervals(memory)
    if job.out:
        status = _decode_rows(address, memory)
        if status != GOOD:
            return status
    rest = count_mcus(memory.header) - memory.intervals.mcu
    if job.judge or rest == 0:
        status = signed(read_on(address, NOWHERE, rest))
        if status == GOOD:
            status = check_end(feed)
        if status != GOOD:
            return status
    return signed(check_range(memory))


@inlined
def _decode_rows(address: int, memory: Record) -> int:
    grid = memory.grid
    first, last, across = grid.first_mcu, grid.last_mcu, grid.mcus_across
    ahead = grid.first_mcu_row * across + first
    for row in range(grid.first_mcu_row, grid.last_mcu_row + 1):
        status = skip_mcus(address, ahead, last + 1 - first)
        if status != GOOD:
            return status
        aim_blocks(memory, row)
        status = read_on(address, first, last + 1 - first)
        if status != GOOD:
            return status
        write_rows(address, row)
        ahead = across - (last + 1 - first)
    return GOOD


_decode = separate(_decode_job)
