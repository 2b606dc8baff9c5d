"""Decode a crop of one JPEG: the compiled entry that needs no Python."""

from typing import Any

from dali_pipes.jpeg.bitstream import begin
from dali_pipes.jpeg.header import read_header
from dali_pipes.jpeg.huffman_tables import build_tables
from dali_pipes.jpeg.layout import find_blocks, find_crop, give_out
from dali_pipes.jpeg.mcus import aim_blocks, list_blocks
from dali_pipes.jpeg.memory import MEMORY_BYTES, Record, memory_at
from dali_pipes.jpeg.memory import scratch_bytes as scratch_bytes
from dali_pipes.jpeg.pixels import write_rows
from dali_pipes.jpeg.restarts import finish, read_on, skip, start_intervals
from dali_pipes.jpeg.status import GOOD, SCRATCH_SHORT, WRONG_CROP, WRONG_SIZE
from gpu_aug.compiled.jit import inlined, kernel, separate, signed


@kernel
def decode_crop(
    data: int,
    length: int,
    crop: tuple[int, int, int, int],
    size: tuple[int, int],
    shrink: int,
    offsets: Any,
    out: int,
    out_row_bytes: int,
    scratch: Any,
) -> int:
    """Decode a crop of a JPEG, bit for bit like libjpeg-turbo decodes the whole.

    Args:
        data: Address of the file's bytes.
        length: How many there are.
        crop: Top, left, height and width in pixels of the upright image, unscaled, inside the image.
        size: Expected height and width of the upright image.
        shrink: 1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height
            / shrink) of them, and columns likewise.
        offsets: int64 [n]: where each restart interval begins in the file, or empty.
        out: Address of the first pixel, uint8 [height, width, 3] after shrinking.
        out_row_bytes: Distance from one row of the result to the next.
        scratch: uint8 [at least scratch_bytes(...)], aligned to 8 bytes.

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
    job.out, job.row_bytes, job.num_bytes = out, out_row_bytes, scratch.size
    return signed(_decode(address))


def _decode_job(address: int) -> int:
    """Decode what the memory's job asks for; returns a status."""
    memory = memory_at(address)
    status = read_header(memory)
    if status == GOOD:
        status = _check_crop(memory.job, memory.header)
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
        status = skip(address, ahead)
        if status != GOOD:
            return status
        aim_blocks(memory, row)
        status = read_on(address, first, last + 1 - first)
        if status != GOOD:
            return status
        write_rows(address, row)
        ahead = across - (last + 1 - first)
    if grid.last_mcu_row == grid.mcus_down - 1 and last == across - 1:
        return finish(memory.feed)
    return GOOD


@inlined
def _check_crop(job: Record, header: Record) -> int:
    height, width = header.height, header.width
    if header.orientation >= 5:
        height, width = width, height
    if job.full_height != height or job.full_width != width:
        return WRONG_SIZE
    if job.top < 0 or job.left < 0 or job.height < 1 or job.width < 1:
        return WRONG_CROP
    if job.top + job.height > height or job.left + job.width > width:
        return WRONG_CROP
    shrink = job.shrink
    return GOOD if shrink == 1 or shrink == 2 or shrink == 4 or shrink == 8 else WRONG_CROP


_decode = separate(_decode_job)
