"""Convert planes of components to the crop's pixels, one row of MCUs at a time."""

from dali_pipes.jpeg.color import (
    STEP,
    blend_lower,
    blend_upper,
    convert,
    repeat,
    spread,
    spread_both,
)
from dali_pipes.jpeg.layout import ALONG_COLUMNS, ALONG_ROWS
from dali_pipes.jpeg.memory import MARGIN, Record, memory_at
from gpu_aug.compiled.jit import (
    inlined,
    inner,
    load_i64,
    load_u8,
    separate,
    signed,
    store_i64,
    store_u8,
)


def _write_rows(address: int, mcu_row: int) -> int:
    """Write the rows of the crop that are complete once a row of MCUs is decoded.

    Args:
        address: Address of the memory.
        mcu_row: The row of MCUs in the planes; above it, the planes hold the last pixel row of the previous row of
            MCUs.

    Returns:
        0, because compiled functions return a status.
    """
    memory = memory_at(address)
    grid, planes, target = memory.grid, memory.planes, memory.target
    num_planes = memory.header.components
    for number in range(num_planes):
        _pad_rows(planes[number], grid.mcu_height)
    end = grid.top + grid.rows
    if mcu_row < grid.last_mcu_row:
        end = min(end, (mcu_row + 1) * grid.mcu_height - grid.delay)
    lines, line_bytes = target.lines, target.line_bytes
    width = grid.columns
    for row in range(target.next_row, end):
        first = _make_line(grid, planes[0], mcu_row, row, lines)
        second, third = first, first
        if num_planes == 3:
            second = _make_line(grid, planes[1], mcu_row, row, lines + line_bytes)
            third = _make_line(grid, planes[2], mcu_row, row, lines + 2 * line_bytes)
        out = target.out + (row - grid.top) * target.row_step
        if target.pixel_step == 3 and width >= STEP:
            _convert_row(first, second, third, out, width)
        else:
            line = lines + 3 * line_bytes
            _convert_row(first, second, third, line, max(width, STEP))
            _scatter(line, out, width, target.pixel_step)
    target.next_row = max(end, target.next_row)
    for number in range(num_planes):
        _copy_last_row(planes[number], grid.mcu_height)
    return 0


@inlined
def _plane_rows(plane: Record, mcu_height: int) -> int:
    return signed(mcu_height // plane.grow_down)


@inner
def _pad_rows(plane: Record, mcu_height: int) -> None:
    """Repeat the outermost pixels of the image once, because interpolation reads one pixel beyond them."""
    if not plane.fancy & ALONG_ROWS:
        return
    first = plane.first_column * plane.side
    last = (plane.last_column + 1) * plane.side
    for row in range(1, _plane_rows(plane, mcu_height) + 1):
        start = plane.pixels + row * plane.row_bytes + MARGIN
        if first == 0:
            store_u8(start - 1, load_u8(start))
        if last >= plane.width:
            end = start + plane.width - first
            store_u8(end, load_u8(end - 1))


@inner
def _copy_last_row(plane: Record, mcu_height: int) -> None:
    source = plane.pixels + _plane_rows(plane, mcu_height) * plane.row_bytes
    for offset in range(0, plane.row_bytes, 8):
        store_i64(plane.pixels + offset, load_i64(source + offset))


@inner
def _make_line(grid: Record, plane: Record, mcu_row: int, row: int, line: int) -> int:
    """Return the address of a component's pixels for an image row, as wide as the crop."""
    rows = _plane_rows(plane, grid.mcu_height)
    own = row // plane.grow_down
    base = plane.pixels + MARGIN - (mcu_row * rows - 1) * plane.row_bytes
    near = base + own * plane.row_bytes
    left = grid.left // plane.grow_across - plane.first_column * plane.side
    phase = grid.left % plane.grow_across
    far = near
    if plane.fancy & ALONG_COLUMNS:
        neighbour = own + (1 if row % 2 else -1)
        far = base + min(max(neighbour, 0), plane.height - 1) * plane.row_bytes
    if plane.grow_across == 1 and not plane.fancy:
        return signed(near + left)
    count = (grid.columns + phase + plane.grow_across - 1) // plane.grow_across
    _fill_line(plane, near + left, far + left, count, row % 2, line)
    return signed(line + phase)


@inner
def _fill_line(plane: Record, near: int, far: int, count: int, lower: int, line: int) -> None:
    fancy, grow = plane.fancy, plane.grow_across
    if fancy == ALONG_ROWS | ALONG_COLUMNS:
        for x in range(0, count, STEP):
            spread_both(near + x, far + x, line + 2 * x)
    elif fancy == ALONG_ROWS:
        for x in range(0, count, STEP):
            spread(near + x, line + 2 * x)
    elif fancy == ALONG_COLUMNS and lower:
        for x in range(0, count, STEP):
            blend_lower(near + x, far + x, line + x)
    elif fancy == ALONG_COLUMNS:
        for x in range(0, count, STEP):
            blend_upper(near + x, far + x, line + x)
    else:
        for x in range(count):
            pixel = load_u8(near + x)
            for copy in range(grow):
                store_u8(line + x * grow + copy, pixel)


@inner
def _convert_row(first: int, second: int, third: int, out: int, width: int) -> None:
    """Convert a row of at least STEP pixels to RGB, STEP at a time; the last step overlaps to end with the row."""
    gray = first == second
    for x in range(0, width, STEP):
        here = min(x, width - STEP)
        if gray:
            repeat(first + here, out + 3 * here)
        else:
            convert(first + here, second + here, third + here, out + 3 * here)


@inner
def _scatter(line: int, out: int, width: int, pixel_step: int) -> None:
    for x in range(width):
        for channel in range(3):
            store_u8(out + channel, load_u8(line + 3 * x + channel))
        out += pixel_step


write_rows = separate(_write_rows)
"""`_write_rows` for kernels."""
