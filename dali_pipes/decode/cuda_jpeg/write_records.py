"""Write the records of an image and its views, and allot the device memory that its kernels need."""

from typing import Any

from dali_pipes.decode.cuda_jpeg.records import FRESH, IMAGE, KEPT, VIEW
from gpu_aug.compiled.jit import inlined, inner, record_at, signed
from gpu_aug.resampling.weights import most_taps

_image_at, _view_at = record_at(IMAGE), record_at(VIEW)


@inner
def write_image(memory: Any, chosen: Any, at: int, total: Any) -> None:
    """Write the IMAGE record of a file whose header and crop are in the decoder's memory.

    Args:
        memory: The decoder's memory, after the header was read and the crop and its blocks were found.
        chosen: int64 [4], the indices of the tables in the header; see `choose_tables`.
        at: Address of the record.
        total: TOTALS; `write_image` adds the image's memory.
    """
    image, header, grid, target = _image_at(at), memory.header, memory.grid, memory.target
    image.coefficients = total.blocks
    image.mcus_across = grid.mcus_across
    image.first_mcu, image.mcu_columns = grid.first_mcu, grid.last_mcu + 1 - grid.first_mcu
    image.first_mcu_row = grid.first_mcu_row
    image.mcu_rows = grid.last_mcu_row + 1 - grid.first_mcu_row
    image.num_planes = header.components
    image.top, image.left, image.rows, image.columns = grid.top, grid.left, grid.rows, grid.columns
    image.first_pixel = target.out // 3
    image.row_step, image.pixel_step = target.row_step // 3, target.pixel_step // 3
    image.part = total.memory
    total.memory += _round_up(4 * grid.rows * grid.columns)
    total.pixels = max(total.pixels, grid.rows * grid.columns)
    num_blocks = signed(0)
    for component in range(header.components):
        first = num_blocks
        dc = 1 if header.dc[component] != chosen[0] else 0
        ac = 1 if header.ac[component] != chosen[2] else 0
        for _ in range(header.across[component] * header.down[component]):
            image.blocks[num_blocks] = component | dc << 2 | ac << 3
            num_blocks += 1
        _write_plane(memory, component, first, image.planes[component], total)
    image.num_blocks = num_blocks
    total.blocks += image.mcu_columns * image.mcu_rows * num_blocks


@inner
def write_place(at: int, place: int, file: Any, start: int, total: Any) -> None:
    """Write where the kernels read an image's bytes.

    Args:
        at: Address of the IMAGE.
        place: UPLOADED, FRESH or KEPT.
        file: FILE of `plan.py`.
        start: Offset in the file of the first byte that is FRESH or KEPT.
        total: TOTALS; its last `fresh` bytes begin with those of this image.
    """
    image = _image_at(at)
    image.place, image.bytes = place, 0
    if place == KEPT:
        image.bytes = file.kept - start
    elif place == FRESH:
        image.bytes = -total.fresh - start


@inlined
def _write_plane(memory: Any, component: int, first_block: int, plane: Any, total: Any) -> None:
    source, grid, header = memory.planes[component], memory.grid, memory.header
    across, down = header.across[component], header.down[component]
    mcu_columns = grid.last_mcu + 1 - grid.first_mcu
    mcu_rows = grid.last_mcu_row + 1 - grid.first_mcu_row
    plane.pixels = total.memory
    plane.row_bytes = mcu_columns * across * 8
    total.memory += _round_up(mcu_columns * across * 8 * mcu_rows * down * 8)
    plane.first_block, plane.across, plane.down = first_block, across, down
    plane.left_block, plane.top_block = grid.first_mcu * across, grid.first_mcu_row * down
    plane.first_column, plane.last_column = source.first_column, source.last_column
    plane.first_row, plane.last_row = source.first_row, source.last_row
    plane.grow_across, plane.grow_down = source.grow_across, source.grow_down
    plane.fancy, plane.width, plane.height = source.fancy, source.width, source.height
    plane.unused = 0
    steps = memory.quant[header.quant[component]]
    for index in range(64):
        plane.steps[index] = steps[index]


@inner
def write_view(
    at: int,
    image: int,
    part: Any,
    crop: Any,
    canvas: Any,
    antialias: bool,
    number: int,
    total: Any,
) -> None:
    """Write the VIEW record of a crop: how the kernels resize it to a view's canvas.

    Args:
        at: Address of the record.
        image: Address of the IMAGE.
        part: RECT, the part of the image that is decoded.
        crop: CROP, the view's crop of the image.
        canvas: int64 [3], the canvas: address on the device, height and width.
        antialias: Whether shrinking is low-pass filtered.
        number: The view's index among all views of the launch.
        total: TOTALS; `write_view` adds the memory of the weights.
    """
    view = _view_at(at)
    view.canvas = canvas[0]
    view.height, view.width = canvas[1], canvas[2]
    first = (crop.top - part.top) * part.width + crop.left - part.left
    view.source = _image_at(image).part + 4 * first
    view.source_row = part.width
    view.antialias = 1 if antialias else 0
    total.seen = max(total.seen, (canvas[1] + 7) // 8 * canvas[2])
    view.top, view.left = max(crop.paste_top, 0), max(crop.paste_left, 0)
    _write_side(view.sides[0], crop.height, crop.resize_height, crop.paste_top, canvas[1], total)
    _write_side(view.sides[1], crop.width, crop.resize_width, crop.paste_left, canvas[2], total)
    view.sides[0].bits_at, view.sides[1].bits_at = 2 * number, 2 * number + 1


@inlined
def _write_side(side: Any, length: int, size: int, paste: int, limit: int, total: Any) -> None:
    first = min(max(-paste, 0), size)
    last = max(min(size, limit - paste), first)
    side.length, side.size, side.first, side.last = length, size, first, last
    side.taps = most_taps(length, size)
    side.weights = total.memory
    total.memory += _round_up((last - first) * (8 + 2 * most_taps(length, size)))


@inlined
def _round_up(number: int) -> int:
    return (number + 15) // 16 * 16
