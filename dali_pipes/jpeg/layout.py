"""Which blocks of each component a window needs, and where their pixels go.

Source: libjpeg-turbo's jdmaster.c (sizes of components under scaling) and jdsample.c (which upsampling).
"""

from typing import Any

from dali_pipes.jpeg.header import ACROSS, COMPONENTS, DOWN, HEIGHT, WIDTH
from gpu_aug.compiled.jit import inlined, kernel, signed

# Places in a row of `parts`, int64 [3, PART_FIELDS], one for each component.
SIDE, GROW_ACROSS, GROW_DOWN, FANCY, PART_WIDTH, PART_HEIGHT = range(6)
"""Pixels of a block's side after scaling; how often a pixel is repeated in either direction; which directions
are interpolated (ALONG_ROWS, ALONG_COLUMNS); size of the component in pixels."""
FIRST_COLUMN, LAST_COLUMN, FIRST_ROW, LAST_ROW = 6, 7, 8, 9
"""Range of blocks that the window needs, the last one included."""
PLANE, ROW_BYTES = 10, 11
"""Address of the pixels that are kept: a row of context, then those of one row of MCUs; bytes from row to row."""
PART_FIELDS = 12

ALONG_ROWS, ALONG_COLUMNS = 1, 2

# Places in `grid`, int64 [GRID_FIELDS].
MCUS_ACROSS, MCUS_DOWN, FIRST_MCU, LAST_MCU, FIRST_MCU_ROW, LAST_MCU_ROW = range(6)
"""MCUs in the image; those that the window needs, the last ones included."""
MCU_HEIGHT, DELAY, TOP, LEFT, ROWS, COLUMNS = range(6, 12)
"""Pixels of an MCU's height after scaling; rows that wait for the next row of MCUs; the window in pixels of
the stored, scaled image."""
GRID_FIELDS = 12

MARGIN = 64
"""Bytes on either side of a row of pixels, for a vector that reaches over its end."""


@kernel
def lay_out(header: Any, shrink: int, parts: Any, grid: Any) -> int:
    """Find the blocks that a window needs.

    Args:
        header: int64 [HEADER_LENGTH], see ``header.py``.
        shrink: 1, 2, 4 or 8.
        parts: int64 [3, PART_FIELDS], written but for PLANE.
        grid: int64 [GRID_FIELDS], written but for the window.

    Returns:
        How many bytes the planes of all components take.
    """
    across = max(header[ACROSS], header[ACROSS + 1], header[ACROSS + 2])
    down = max(header[DOWN], header[DOWN + 1], header[DOWN + 2])
    grid[MCUS_ACROSS] = _round_up(header[WIDTH], 8 * across)
    grid[MCUS_DOWN] = _round_up(header[HEIGHT], 8 * down)
    grid[MCU_HEIGHT] = down * 8 // shrink
    grid[DELAY] = 0
    grid[FIRST_MCU], grid[FIRST_MCU_ROW] = grid[MCUS_ACROSS], grid[MCUS_DOWN]
    grid[LAST_MCU], grid[LAST_MCU_ROW] = 0, 0
    total_bytes = 0
    for component in range(header[COMPONENTS]):
        part = parts[component]
        blocks_across, blocks_down = header[ACROSS + component], header[DOWN + component]
        _scale(part, header, shrink, (across, down), (blocks_across, blocks_down))
        part[FIRST_COLUMN], part[LAST_COLUMN] = _needed(
            grid[LEFT], grid[COLUMNS], part[GROW_ACROSS], part[PART_WIDTH], part[SIDE]
        )
        part[FIRST_ROW], part[LAST_ROW] = _needed(
            grid[TOP], grid[ROWS], part[GROW_DOWN], part[PART_HEIGHT], part[SIDE]
        )
        grid[FIRST_MCU] = min(grid[FIRST_MCU], part[FIRST_COLUMN] // blocks_across)
        grid[LAST_MCU] = max(grid[LAST_MCU], part[LAST_COLUMN] // blocks_across)
        grid[FIRST_MCU_ROW] = min(grid[FIRST_MCU_ROW], part[FIRST_ROW] // blocks_down)
        grid[LAST_MCU_ROW] = max(grid[LAST_MCU_ROW], part[LAST_ROW] // blocks_down)
        if part[FANCY] & ALONG_COLUMNS:
            grid[DELAY] = 1
        blocks = part[LAST_COLUMN] - part[FIRST_COLUMN] + 1
        part[ROW_BYTES] = _round_up(blocks * part[SIDE], 64) * 64 + 2 * MARGIN
        total_bytes += part[ROW_BYTES] * (1 + blocks_down * part[SIDE])
    return signed(total_bytes + MARGIN)


@inlined
def _round_up(number: int, step: int) -> int:
    return (number + step - 1) // step


@inlined
def _scale(part: Any, header: Any, shrink: int, most: Any, own: Any) -> None:
    """Set the size of a component's blocks, and by what its pixels become the image's."""
    smallest = 8 // shrink
    side = smallest
    while (
        side < 8
        and (most[0] * smallest) % (own[0] * side * 2) == 0
        and (most[1] * smallest) % (own[1] * side * 2) == 0
    ):
        side *= 2
    part[SIDE] = side
    part[GROW_ACROSS] = most[0] * smallest // (own[0] * side)
    part[GROW_DOWN] = most[1] * smallest // (own[1] * side)
    part[PART_WIDTH] = _round_up(header[WIDTH] * own[0] * side, most[0] * 8)
    part[PART_HEIGHT] = _round_up(header[HEIGHT] * own[1] * side, most[1] * 8)
    part[FANCY] = 0
    if smallest > 1 and part[GROW_DOWN] <= 2:
        if part[GROW_ACROSS] == 2 and part[PART_WIDTH] > 2:
            part[FANCY] = ALONG_ROWS
        if part[GROW_DOWN] == 2 and (part[GROW_ACROSS] == 1 or part[FANCY]):
            part[FANCY] |= ALONG_COLUMNS


@inlined
def _needed(start: int, length: int, grow: int, limit: int, side: int) -> Any:
    """The first and the last block for a range of the image's pixels, with a pixel of context."""
    context = 1 if grow == 2 else 0
    first = max(start // grow - context, 0)
    last = min((start + length - 1) // grow + context, limit - 1)
    return first // side, last // side
