"""Decode a crop of one JPEG: the compiled entry that needs no Python."""

from typing import Any

from dali_pipes.jpeg.bitstream import begin
from dali_pipes.jpeg.header import read_header
from dali_pipes.jpeg.huffman_tables import build_tables
from dali_pipes.jpeg.layout import check_crop, find_blocks, find_crop, give_out
from dali_pipes.jpeg.mcus import aim_blocks, list_blocks
from dali_pipes.jpeg.memory import MEMORY_BYTES, Record, memory_at
from dali_pipes.jpeg.pixels import write_rows
from dali_pipes.jpeg.progressive.decode import decode_scans
from dali_pipes.jpeg.progressive.memory import scratch_bytes as scratch_bytes
from dali_pipes.jpeg.restarts import check_range, read_on, skip, start_intervals
from dali_pipes.jpeg.status import GOOD, SCRATCH_SHORT, SEVERAL_SCANS
from dali_pipes.jpeg.whole import count_mcus, judge_rest
from gpu_aug.compiled.jit import inlined, kernel, separate, signed


@kernel
def decode_crop(
    data: int,
    length: int,
    crop: tuple[int, int, int, int],
    size: tuple[int, int],
    shrink: int,
    offsets: Any,
    checkpoints: tuple[int, int, int],
    judge: bool,
    out: int,
    out_row_bytes: int,
    scratch: Any,
) -> int:
    """Decode a crop of a JPEG, bit for bit like libjpeg-turbo decodes the whole.

    Whether the whole file is sound is known from before, or it is found out here: then all its codes are read, and the
    answer is that of `whole.check_whole`, but for what is asked for in vain.

    Args:
        data: Address of the file's bytes.
        length: How many there are.
        crop: Top, left, height and width in pixels of the upright image, unscaled, inside the image.
        size: Expected height and width of the upright image.
        shrink: 1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height
            / shrink) of them, and columns likewise.
        offsets: int64 [n]: where each restart interval begins in the file, or empty; used where nothing is judged.
        checkpoints: Address of CHECKPOINT [n], n, and MCUs from one to the next. They are read, unless the file is judged:
            then they are written as far as it is sound, into room for at least as many as it has; with 0 MCUs none are.
        judge: Whether to read the whole file. Otherwise no more is read than the crop needs.
        out: Address of the first pixel, uint8 [height, width, 3] after shrinking.
        out_row_bytes: Distance from one row of the result to the next.
        scratch: uint8 [at least scratch_bytes(...)], aligned to 8 bytes; new memory is 0, and what calls leave stays.

    Returns:
        0, or an index of REASONS; then what stands in `out` is undefined.
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
    job.checkpoints, job.num_checkpoints, job.every = checkpoints
    job.judge, job.noted = 1 if judge else 0, -1
    job.out, job.row_bytes, job.num_bytes = out, out_row_bytes, scratch.size
    return signed(_decode(address))


def _decode_job(address: int) -> int:
    """Decode what the memory's job asks for; returns a status."""
    memory = memory_at(address)
    found = read_header(memory)
    status = GOOD if found == SEVERAL_SCANS else found
    if status == GOOD:
        status = check_crop(memory.job, memory.header)
    if status == GOOD and found == SEVERAL_SCANS:
        return signed(decode_scans(address))
    if status == GOOD:
        status = build_tables(memory)
    if status != GOOD:
        return status
    find_crop(memory)
    plane_bytes = find_blocks(memory)
    if not give_out(memory, address + MEMORY_BYTES, plane_bytes):
        return SCRATCH_SHORT
    list_blocks(memory)
    memory.coefficients[:] = 0
    feed, job = memory.feed, memory.job
    feed.clean = signed(memory.clean_bytes.ctypes.data)
    feed.stop = job.data + job.length
    begin(feed, job.data + memory.header.scan)
    start_intervals(memory)
    return _decode_rows(address, memory)


@inlined
def _decode_rows(address: int, memory: Record) -> int:
    grid = memory.grid
    first, last, across = grid.first_mcu, grid.last_mcu, grid.mcus_across
    ahead = grid.first_mcu_row * across + first
    for row in range(grid.first_mcu_row, grid.last_mcu_row + 1):
        status = skip(address, ahead, last + 1 - first)
        if status != GOOD:
            return status
        aim_blocks(memory, row)
        status = read_on(address, first, last + 1 - first)
        if status != GOOD:
            return status
        write_rows(address, row)
        ahead = across - (last + 1 - first)
    rest = count_mcus(memory.header) - memory.intervals.mcu
    if memory.job.judge or rest == 0:
        return judge_rest(address, rest)
    return signed(check_range(memory))


_decode = separate(_decode_job)
