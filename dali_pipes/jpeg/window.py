"""Decode a window of one JPEG: the compiled entry that needs no Python."""

from typing import Any

from dali_pipes.jpeg import header as h
from dali_pipes.jpeg import job as j
from dali_pipes.jpeg import layout as lay
from dali_pipes.jpeg import mcus, pixels
from dali_pipes.jpeg.colour import STEP
from dali_pipes.jpeg.feed import CLEAN, STATE_LENGTH, STOP, begin
from dali_pipes.jpeg.job import scratch_bytes as scratch_bytes
from dali_pipes.jpeg.reasons import GOOD, SCRATCH_SHORT, WRONG_SIZE, WRONG_WINDOW
from dali_pipes.jpeg.restarts import finish, read_on, skip, start_intervals
from dali_pipes.jpeg.symbols import BLOCK_SCRATCH
from dali_pipes.jpeg.tables import FAST_LENGTH, SEARCH_LENGTH, build_tables
from gpu_aug.compiled.jit import inlined, kernel, separate, signed, store_i64, view_i64


@kernel
def decode_window(
    data: int,
    length: int,
    window: tuple[int, int, int, int],
    size: tuple[int, int],
    shrink: int,
    offsets: Any,
    out: int,
    out_row_bytes: int,
    scratch: Any,
) -> int:
    """Decode the part of a JPEG that a window shows.

    Args:
        data: Address of the file's bytes.
        length: How many there are.
        window: Top, left, height and width in pixels of the upright image, unscaled, inside the image.
        size: Expected height and width of the upright image.
        shrink: 1, 2, 4 or 8: of the image that is smaller by this, the rows from top // shrink on, ceil(height
            / shrink) of them, and columns likewise.
        offsets: int64 [n]: where each restart interval begins in the file, or empty.
        out: Address of the first pixel, uint8 [height, width, 3] after shrinking.
        out_row_bytes: Distance from one row of the result to the next.
        scratch: uint8 [at least scratch_bytes(...)], aligned to 8 bytes.

    Returns:
        0, or a place in REASONS; then what stands in `out` is undefined.
    """
    if scratch.size < j.LINES:
        return SCRATCH_SHORT
    address = scratch.ctypes.data
    job = view_i64(address + j.JOB, (j.JOB_FIELDS,))
    job[j.DATA], job[j.LENGTH] = data, length
    job[j.TOP], job[j.LEFT], job[j.HEIGHT], job[j.WIDTH] = window
    job[j.FULL_HEIGHT], job[j.FULL_WIDTH] = size
    job[j.SHRINK] = shrink
    job[j.OFFSETS], job[j.NUM_OFFSETS] = offsets.ctypes.data, offsets.size
    job[j.OUT], job[j.ROW_BYTES] = out, out_row_bytes
    job[j.SCRATCH], job[j.SCRATCH_BYTES] = address, scratch.size
    return signed(_run(address + j.JOB))


def _run_job(job_address: int) -> int:
    """Decode as a job says, int64 [JOB_FIELDS]; returns a status."""
    job = view_i64(job_address, (j.JOB_FIELDS,))
    memory = job[j.SCRATCH]
    status = h.read_header(
        job[j.DATA], job[j.LENGTH], memory + j.HEADER, memory + j.QUANT, memory + j.HUFFMAN
    )
    if status != GOOD:
        return status
    header = view_i64(memory + j.HEADER, (h.HEADER_LENGTH,))
    status = _check_window(job, header)
    if status != GOOD:
        return status
    status = build_tables(
        header,
        memory + j.HUFFMAN,
        memory + j.SINGLE,
        memory + j.PAIRS,
        memory + j.HOPS,
        memory + j.SEARCH,
    )
    if status != GOOD:
        return status
    target = view_i64(memory + j.TARGET, (pixels.TARGET_FIELDS,))
    parts = view_i64(memory + j.PARTS, (3, lay.PART_FIELDS))
    grid = view_i64(memory + j.GRID, (lay.GRID_FIELDS,))
    _turn(job, header, grid, target)
    plane_bytes = lay.lay_out(header, job[j.SHRINK], parts, grid)
    if not _place(job, plane_bytes, header[h.COMPONENTS], parts, grid, target):
        return SCRATCH_SHORT
    state = view_i64(memory + j.STATE, (STATE_LENGTH,))
    state[CLEAN] = memory + j.CLEAN
    state[STOP] = job[j.DATA] + job[j.LENGTH]
    begin(state, job[j.DATA] + header[h.SCAN])
    return _decode(job, header, parts, grid, state)


@inlined
def _decode(job: Any, header: Any, parts: Any, grid: Any, state: Any) -> int:
    memory = job[j.SCRATCH]
    blocks = view_i64(memory + j.BLOCKS, (10, mcus.BLOCK_FIELDS))
    num_blocks = _list_blocks(header, parts, memory, blocks)
    for place in range(0, BLOCK_SCRATCH, 8):
        store_i64(memory + j.BLOCK + place, 0)
    start_intervals(memory + j.INTERVALS, header[h.RESTART])
    first, last = grid[lay.FIRST_MCU], grid[lay.LAST_MCU]
    across = grid[lay.MCUS_ACROSS]
    ahead = grid[lay.FIRST_MCU_ROW] * across + first
    for row in range(grid[lay.FIRST_MCU_ROW], grid[lay.LAST_MCU_ROW] + 1):
        status = skip(job, num_blocks, ahead)
        if status != GOOD:
            return status
        _aim(blocks, num_blocks, header, parts, row)
        status = read_on(job, num_blocks, first, last + 1 - first)
        if status != GOOD:
            return status
        pixels.write_rows(
            memory + j.GRID, memory + j.PARTS, header[h.COMPONENTS], row, memory + j.TARGET
        )
        ahead = across - (last + 1 - first)
    if grid[lay.LAST_MCU_ROW] == grid[lay.MCUS_DOWN] - 1 and last == across - 1:
        return finish(state)
    return GOOD


@inlined
def _check_window(job: Any, header: Any) -> int:
    height, width = header[h.HEIGHT], header[h.WIDTH]
    if header[h.ORIENTATION] >= 5:
        height, width = width, height
    if job[j.FULL_HEIGHT] != height or job[j.FULL_WIDTH] != width:
        return WRONG_SIZE
    if job[j.TOP] < 0 or job[j.LEFT] < 0 or job[j.HEIGHT] < 1 or job[j.WIDTH] < 1:
        return WRONG_WINDOW
    if job[j.TOP] + job[j.HEIGHT] > height or job[j.LEFT] + job[j.WIDTH] > width:
        return WRONG_WINDOW
    shrink = job[j.SHRINK]
    return GOOD if shrink == 1 or shrink == 2 or shrink == 4 or shrink == 8 else WRONG_WINDOW


@inlined
def _turn(job: Any, header: Any, grid: Any, target: Any) -> None:
    """Find the window in the stored, scaled image; where its first pixel goes, and the next ones."""
    orientation, shrink = header[h.ORIENTATION], job[j.SHRINK]
    stored_height = (header[h.HEIGHT] + shrink - 1) // shrink
    stored_width = (header[h.WIDTH] + shrink - 1) // shrink
    top, left = job[j.TOP] // shrink, job[j.LEFT] // shrink
    height = (job[j.HEIGHT] + shrink - 1) // shrink
    width = (job[j.WIDTH] + shrink - 1) // shrink
    out, row_step, pixel_step = job[j.OUT], job[j.ROW_BYTES], 3
    if orientation >= 5:
        top, left, height, width = left, top, width, height
        row_step, pixel_step = pixel_step, row_step
    if orientation == 3 or orientation == 4 or orientation == 6 or orientation == 7:
        top = stored_height - top - height
        out += (height - 1) * row_step
        row_step = -row_step
    if orientation == 2 or orientation == 3 or orientation == 7 or orientation == 8:
        left = stored_width - left - width
        out += (width - 1) * pixel_step
        pixel_step = -pixel_step
    grid[lay.TOP], grid[lay.LEFT], grid[lay.ROWS], grid[lay.COLUMNS] = top, left, height, width
    target[pixels.OUT], target[pixels.NEXT_ROW] = out, top
    target[pixels.ROW_STEP], target[pixels.PIXEL_STEP] = row_step, pixel_step


@inlined
def _place(job: Any, plane_bytes: int, components: int, parts: Any, grid: Any, target: Any) -> bool:
    """Give out the memory for pixels; whether there is enough."""
    line_bytes = (grid[lay.COLUMNS] + 2 * STEP + 3 * 16 + 63) // 64 * 64
    needed = j.LINES + plane_bytes + j.NUM_LINES * line_bytes
    if needed > job[j.SCRATCH_BYTES]:
        return False
    address = job[j.SCRATCH] + j.LINES
    target[pixels.LINES], target[pixels.LINE_BYTES] = address, line_bytes
    address += j.NUM_LINES * line_bytes
    for component in range(components):
        parts[component, lay.PLANE] = address
        lines = 1 + grid[lay.MCU_HEIGHT] // parts[component, lay.GROW_DOWN]
        address += parts[component, lay.ROW_BYTES] * lines
    return True


@inlined
def _list_blocks(header: Any, parts: Any, memory: int, blocks: Any) -> int:
    """Describe each block of an MCU, and return how many there are."""
    count = signed(0)
    for component in range(header[h.COMPONENTS]):
        dc, ac = header[h.DC + component], header[h.AC + component]
        across, down = header[h.ACROSS + component], header[h.DOWN + component]
        for place in range(across * down):
            entry = blocks[count]
            entry[mcus.COMPONENT] = component
            entry[mcus.STEPS] = memory + j.QUANT + 128 * header[h.QUANT + component]
            entry[mcus.LEVELS] = memory + j.SINGLE + 4 * FAST_LENGTH * dc
            entry[mcus.PAIRS] = memory + j.PAIRS + 8 * FAST_LENGTH * (ac - 4)
            entry[mcus.HOPS] = memory + j.HOPS + 4 * FAST_LENGTH * (ac - 4)
            entry[mcus.DC_SEARCH] = memory + j.SEARCH + 4 * SEARCH_LENGTH * dc
            entry[mcus.AC_SEARCH] = memory + j.SEARCH + 4 * SEARCH_LENGTH * ac
            entry[mcus.DC_SYMBOLS] = memory + j.HUFFMAN + h.TABLE_BYTES * dc + 16
            entry[mcus.AC_SYMBOLS] = memory + j.HUFFMAN + h.TABLE_BYTES * ac + 16
            entry[mcus.COLUMN], entry[mcus.DOWN] = place % across, place // across
            entry[mcus.ACROSS] = across
            entry[mcus.FIRST] = parts[component, lay.FIRST_COLUMN]
            entry[mcus.STRIDE] = parts[component, lay.ROW_BYTES]
            entry[mcus.SIDE] = parts[component, lay.SIDE]
            entry[mcus.WANTED] = 0
            count += 1
    return count


@inlined
def _aim(blocks: Any, num_blocks: int, header: Any, parts: Any, mcu_row: int) -> None:
    """Say which blocks of a row of MCUs are wanted, and where their pixels go."""
    for number in range(num_blocks):
        entry = blocks[number]
        component = entry[mcus.COMPONENT]
        part = parts[component]
        row = mcu_row * header[h.DOWN + component] + entry[mcus.DOWN]
        entry[mcus.WANTED] = 0
        if part[lay.FIRST_ROW] <= row <= part[lay.LAST_ROW]:
            entry[mcus.WANTED] = part[lay.LAST_COLUMN] - part[lay.FIRST_COLUMN] + 1
        line = 1 + entry[mcus.DOWN] * part[lay.SIDE]
        entry[mcus.OUT] = part[lay.PLANE] + line * part[lay.ROW_BYTES] + lay.MARGIN


_run = separate(_run_job)
