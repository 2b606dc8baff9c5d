"""Find the blocks of each component that a crop needs, and lay out the memory for their pixels.

Source: libjpeg-turbo's jdmaster.c (sizes of components under scaling) and jdsample.c (choice of upsampling). The fields
of the records are documented in ``memory.py``.
"""

from typing import Any

from dali_pipes.jpeg.color import STEP
from dali_pipes.jpeg.header import upright_size
from dali_pipes.jpeg.memory import MARGIN, MEMORY_BYTES, NUM_LINES
from dali_pipes.jpeg.status import GOOD, WRONG_CROP, WRONG_SIZE
from gpu_aug.compiled.jit import inlined, inner, signed

ALONG_ROWS, ALONG_COLUMNS = 1, 2
"""Bits of a plane's `fancy`: the directions in which its pixels are interpolated."""


@inlined
def check_crop(job: Any, header: Any) -> int:
    """Return a status: whether the file has the expected size, and the crop lies inside it."""
    if job.judge and job.out == 0:  # only the verdict is requested, so there is no crop
        return GOOD
    height, width = upright_size(header)
    if job.full_height != height or job.full_width != width:
        return WRONG_SIZE
    if job.top < 0 or job.left < 0 or job.height < 1 or job.width < 1:
        return WRONG_CROP
    if job.top + job.height > height or job.left + job.width > width:
        return WRONG_CROP
    shrink = job.shrink
    return GOOD if shrink == 1 or shrink == 2 or shrink == 4 or shrink == 8 else WRONG_CROP


@inner
def count_mcus(header: Any) -> int:
    """Return the number of MCUs of an image."""
    across = 8 * max(header.across[0], header.across[1], header.across[2])
    down = 8 * max(header.down[0], header.down[1], header.down[2])
    mcus_across = (header.width + across - 1) // across
    return signed(mcus_across * ((header.height + down - 1) // down))


@inlined
def find_crop(memory: Any) -> None:
    """Find the crop in the stored, scaled image, and the addresses and steps of its output pixels."""
    job, header, grid, target = memory.job, memory.header, memory.grid, memory.target
    orientation, shrink = header.orientation, job.shrink
    top, left = job.top // shrink, job.left // shrink
    height, width = _round_up(job.height, shrink), _round_up(job.width, shrink)
    out, row_step, pixel_step = job.out, job.row_bytes, 3
    if orientation >= 5:
        top, left, height, width = left, top, width, height
        row_step, pixel_step = pixel_step, row_step
    if orientation == 3 or orientation == 4 or orientation == 6 or orientation == 7:
        top = _round_up(header.height, shrink) - top - height
        out += (height - 1) * row_step
        row_step = -row_step
    if orientation == 2 or orientation == 3 or orientation == 7 or orientation == 8:
        left = _round_up(header.width, shrink) - left - width
        out += (width - 1) * pixel_step
        pixel_step = -pixel_step
    grid.top, grid.left, grid.rows, grid.columns = top, left, height, width
    target.out, target.next_row = out, top
    target.row_step, target.pixel_step = row_step, pixel_step


@inner
def find_blocks(memory: Any) -> None:
    """Find the blocks that the crop needs."""
    header, shrink, grid = memory.header, memory.job.shrink, memory.grid
    across = max(header.across[0], header.across[1], header.across[2])
    down = max(header.down[0], header.down[1], header.down[2])
    grid.mcus_across = _round_up(header.width, 8 * across)
    grid.mcus_down = _round_up(header.height, 8 * down)
    grid.mcu_height = down * 8 // shrink
    grid.delay = 0
    grid.first_mcu, grid.first_mcu_row = grid.mcus_across, grid.mcus_down
    grid.last_mcu, grid.last_mcu_row = 0, 0
    for component in range(header.components):
        plane = memory.planes[component]
        blocks_across, blocks_down = header.across[component], header.down[component]
        _set_scale(plane, header, shrink, (across, down), (blocks_across, blocks_down))
        plane.first_column, plane.last_column = _find_needed(
            grid.left, grid.columns, plane.grow_across, plane.width, plane.side
        )
        plane.first_row, plane.last_row = _find_needed(
            grid.top, grid.rows, plane.grow_down, plane.height, plane.side
        )
        grid.first_mcu = min(grid.first_mcu, plane.first_column // blocks_across)
        grid.last_mcu = max(grid.last_mcu, plane.last_column // blocks_across)
        grid.first_mcu_row = min(grid.first_mcu_row, plane.first_row // blocks_down)
        grid.last_mcu_row = max(grid.last_mcu_row, plane.last_row // blocks_down)
        if plane.fancy & ALONG_COLUMNS:
            grid.delay = 1
        blocks = plane.last_column - plane.first_column + 1
        plane.row_bytes = _round_up(blocks * plane.side, 64) * 64 + 2 * MARGIN


@inlined
def allot_memory(memory: Any, address: int) -> int:
    """Find the blocks that the crop needs, and place lines and planes in the memory behind the record.

    Returns:
        The address of the first free byte, a multiple of 8; it may be used only if the memory is large enough.
    """
    find_blocks(memory)
    grid = memory.grid
    line_bytes = _round_up(grid.columns + 2 * STEP + 3 * 16, 64) * 64
    free = address + MEMORY_BYTES
    memory.target.lines, memory.target.line_bytes = free, line_bytes
    free += NUM_LINES * line_bytes
    for component in range(memory.header.components):
        plane = memory.planes[component]
        plane.pixels = free
        free += plane.row_bytes * (1 + grid.mcu_height // plane.grow_down)
    return signed((free + MARGIN + 7) // 8 * 8)


@inlined
def _round_up(number: int, step: int) -> int:
    return (number + step - 1) // step


@inlined
def _set_scale(plane: Any, header: Any, shrink: int, most: Any, own: Any) -> None:
    """Set the size of a component's blocks, and whether its pixels are repeated or interpolated."""
    smallest = 8 // shrink
    side = smallest
    while (
        side < 8
        and (most[0] * smallest) % (own[0] * side * 2) == 0
        and (most[1] * smallest) % (own[1] * side * 2) == 0
    ):
        side *= 2
    plane.side = side
    plane.grow_across = most[0] * smallest // (own[0] * side)
    plane.grow_down = most[1] * smallest // (own[1] * side)
    plane.width = _round_up(header.width * own[0] * side, most[0] * 8)
    plane.height = _round_up(header.height * own[1] * side, most[1] * 8)
    plane.fancy = 0
    if smallest > 1 and plane.grow_down <= 2:
        if plane.grow_across == 2 and plane.width > 2:
            plane.fancy = ALONG_ROWS
        if plane.grow_down == 2 and (plane.grow_across == 1 or plane.fancy):
            plane.fancy |= ALONG_COLUMNS


@inlined
def _find_needed(start: int, length: int, grow: int, limit: int, side: int) -> Any:
    """Return the indices of the first and last block that a range of image pixels needs, with one pixel of context."""
    context = 1 if grow == 2 else 0
    first = max(start // grow - context, 0)
    last = min((start + length - 1) // grow + context, limit - 1)
    return first // side, last // side
