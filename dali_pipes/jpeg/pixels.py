"""From planes of components to the pixels of the window, one row of MCUs after the other."""

from typing import Any

from dali_pipes.jpeg.colour import (
    STEP,
    blend_lower,
    blend_upper,
    convert,
    repeat,
    spread,
    spread_both,
)
from dali_pipes.jpeg.layout import (
    ALONG_COLUMNS,
    ALONG_ROWS,
    COLUMNS,
    DELAY,
    FANCY,
    FIRST_COLUMN,
    GRID_FIELDS,
    GROW_ACROSS,
    GROW_DOWN,
    LAST_COLUMN,
    LAST_MCU_ROW,
    LEFT,
    MARGIN,
    MCU_HEIGHT,
    PART_FIELDS,
    PART_HEIGHT,
    PART_WIDTH,
    PLANE,
    ROW_BYTES,
    ROWS,
    SIDE,
    TOP,
)
from gpu_aug.compiled.jit import (
    inlined,
    kernel,
    load_i64,
    load_u8,
    separate,
    signed,
    store_i64,
    store_u8,
    view_i64,
)

# Places in `target`, int64 [TARGET_FIELDS].
OUT, ROW_STEP, PIXEL_STEP, NEXT_ROW, LINES, LINE_BYTES = range(6)
"""Address of the window's first pixel; bytes from there to the next stored row and column (negative for some
orientations); the next row to write; address of lines to work in, and bytes of one."""
TARGET_FIELDS = 6


def _write_rows(
    grid_address: int, parts_address: int, num_parts: int, mcu_row: int, target_address: int
) -> int:
    """Write the window's rows that are complete with a row of MCUs.

    Args:
        grid_address: Address of int64 [GRID_FIELDS], see ``layout.py``.
        parts_address: Address of int64 [3, PART_FIELDS], see ``layout.py``.
        num_parts: 1 or 3.
        mcu_row: The row of MCUs that the planes hold, below the last row of the one before.
        target_address: Address of int64 [TARGET_FIELDS], see above.

    Returns:
        0.
    """
    grid = view_i64(grid_address, (GRID_FIELDS,))
    parts = view_i64(parts_address, (3, PART_FIELDS))
    target = view_i64(target_address, (TARGET_FIELDS,))
    for number in range(num_parts):
        _pad(parts[number], grid[MCU_HEIGHT])
    end = grid[TOP] + grid[ROWS]
    if mcu_row < grid[LAST_MCU_ROW]:
        end = min(end, (mcu_row + 1) * grid[MCU_HEIGHT] - grid[DELAY])
    lines, line_bytes = target[LINES], target[LINE_BYTES]
    width = grid[COLUMNS]
    for row in range(target[NEXT_ROW], end):
        first = _line(grid, parts[0], mcu_row, row, lines)
        second, third = first, first
        if num_parts == 3:
            second = _line(grid, parts[1], mcu_row, row, lines + line_bytes)
            third = _line(grid, parts[2], mcu_row, row, lines + 2 * line_bytes)
        out = target[OUT] + (row - grid[TOP]) * target[ROW_STEP]
        if target[PIXEL_STEP] == 3 and width >= STEP:
            _convert_row(first, second, third, out, width)
        else:
            line = lines + 3 * line_bytes
            _convert_row(first, second, third, line, max(width, STEP))
            _scatter(line, out, width, target[PIXEL_STEP])
    target[NEXT_ROW] = max(end, target[NEXT_ROW])
    for number in range(num_parts):
        _keep_last(parts[number], grid[MCU_HEIGHT])
    return 0


@inlined
def _part_rows(part: Any, mcu_height: int) -> int:
    return signed(mcu_height // part[GROW_DOWN])


@kernel
def _pad(part: Any, mcu_height: int) -> None:
    """Repeat the image's outermost pixels once, for the interpolation."""
    if not part[FANCY] & ALONG_ROWS:
        return
    first = part[FIRST_COLUMN] * part[SIDE]
    last = (part[LAST_COLUMN] + 1) * part[SIDE]
    for row in range(1, _part_rows(part, mcu_height) + 1):
        start = part[PLANE] + row * part[ROW_BYTES] + MARGIN
        if first == 0:
            store_u8(start - 1, load_u8(start))
        if last >= part[PART_WIDTH]:
            end = start + part[PART_WIDTH] - first
            store_u8(end, load_u8(end - 1))


@kernel
def _keep_last(part: Any, mcu_height: int) -> None:
    source = part[PLANE] + _part_rows(part, mcu_height) * part[ROW_BYTES]
    for place in range(0, part[ROW_BYTES], 8):
        store_i64(part[PLANE] + place, load_i64(source + place))


@kernel
def _line(grid: Any, part: Any, mcu_row: int, row: int, line: int) -> int:
    """The address of a component's pixels for a row of the image, as wide as the window."""
    rows = _part_rows(part, grid[MCU_HEIGHT])
    own = row // part[GROW_DOWN]
    base = part[PLANE] + MARGIN - (mcu_row * rows - 1) * part[ROW_BYTES]
    near = base + own * part[ROW_BYTES]
    left = grid[LEFT] // part[GROW_ACROSS] - part[FIRST_COLUMN] * part[SIDE]
    phase = grid[LEFT] % part[GROW_ACROSS]
    far = near
    if part[FANCY] & ALONG_COLUMNS:
        beside = own + (1 if row % 2 else -1)
        far = base + min(max(beside, 0), part[PART_HEIGHT] - 1) * part[ROW_BYTES]
    if part[GROW_ACROSS] == 1 and not part[FANCY]:
        return signed(near + left)
    count = (grid[COLUMNS] + phase + part[GROW_ACROSS] - 1) // part[GROW_ACROSS]
    _fill_line(part, near + left, far + left, count, row % 2, line)
    return signed(line + phase)


@kernel
def _fill_line(part: Any, near: int, far: int, count: int, lower: int, line: int) -> None:
    fancy, grow = part[FANCY], part[GROW_ACROSS]
    if fancy == ALONG_ROWS | ALONG_COLUMNS:
        for place in range(0, count, STEP):
            spread_both(near + place, far + place, line + 2 * place)
    elif fancy == ALONG_ROWS:
        for place in range(0, count, STEP):
            spread(near + place, line + 2 * place)
    elif fancy == ALONG_COLUMNS and lower:
        for place in range(0, count, STEP):
            blend_lower(near + place, far + place, line + place)
    elif fancy == ALONG_COLUMNS:
        for place in range(0, count, STEP):
            blend_upper(near + place, far + place, line + place)
    else:
        for place in range(count):
            pixel = load_u8(near + place)
            for copy in range(grow):
                store_u8(line + place * grow + copy, pixel)


@kernel
def _convert_row(first: int, second: int, third: int, out: int, width: int) -> None:
    """Convert at least STEP pixels; the last ones twice rather than some behind them."""
    gray = first == second
    for place in range(0, width, STEP):
        here = min(place, width - STEP)
        if gray:
            repeat(first + here, out + 3 * here)
        else:
            convert(first + here, second + here, third + here, out + 3 * here)


@kernel
def _scatter(line: int, out: int, width: int, pixel_step: int) -> None:
    for place in range(width):
        for channel in range(3):
            store_u8(out + channel, load_u8(line + 3 * place + channel))
        out += pixel_step


write_rows = separate(_write_rows)
"""`_write_rows` for kernels."""
