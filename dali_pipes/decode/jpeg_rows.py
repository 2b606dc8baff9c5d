"""The decode stage of JPEGs as one function without Python: from encoded bytes to canvases."""

from typing import Any

from dali_pipes.jpeg.crop import decode_crop
from gpu_aug.compiled.jit import kernel, view_u8
from gpu_aug.resampling.bilinear import resize_into

# Places in a row of `windows`.
TOP, LEFT, HEIGHT, WIDTH, RESIZE_HEIGHT, RESIZE_WIDTH, PASTE_TOP, PASTE_LEFT = range(8)


@kernel
def draw_rows(
    encoded: Any,
    sizes: Any,
    parts: Any,
    shrink: Any,
    offsets: Any,
    windows: Any,
    canvases: Any,
    antialias: Any,
    memory: Any,
    statuses: Any,
) -> None:
    """Decode the needed part of n JPEGs and draw the canvases of V views from each.

    Args:
        encoded: int64 [n, 4]: address and length of the bytes; first and last place (half open) in `offsets`.
        sizes: int64 [n, 2]: height and width of the upright images.
        parts: int64 [n, 4]: top, left, height and width of the part that all views need. It begins at multiples of
            `shrink`, and ends at such or with the image.
        shrink: int64 [n]: 1, 2, 4 or 8; the image is decoded at its size divided by this.
        offsets: int64 [...]: where restart intervals begin, of the files of which that is known.
        windows: int64 [V, n, 8]: see gpu_aug.Windows.
        canvases: int64 [V, n, 3]: address, height and width.
        antialias: bool [V].
        memory: Three of uint8 [...]: scratch for decoding, room for the largest part, scratch for resizing.
        statuses: int32 [n], written: 0, or a place in jpeg.REASONS; then its canvases are undefined.
    """
    decoding, pixels, resizing = memory
    for row in range(len(statuses)):
        times = shrink[row]
        part_top, part_left, height, width = (
            parts[row, 0],
            parts[row, 1],
            parts[row, 2],
            parts[row, 3],
        )
        shape = (-(-height // times), -(-width // times), 3)
        statuses[row] = decode_crop(
            encoded[row, 0],
            encoded[row, 1],
            (part_top, part_left, height, width),
            (sizes[row, 0], sizes[row, 1]),
            times,
            offsets[encoded[row, 2] : encoded[row, 3]],
            pixels.ctypes.data,
            shape[1] * 3,
            decoding,
        )
        if statuses[row] != 0:
            continue
        part = pixels[: shape[0] * shape[1] * 3].reshape(shape)
        for view in range(len(windows)):
            w, canvas = windows[view, row], canvases[view, row]
            top, left = w[TOP] - part_top, w[LEFT] - part_left
            first_y, last_y = top // times, -(-(top + w[HEIGHT]) // times)
            first_x, last_x = left // times, -(-(left + w[WIDTH]) // times)
            resize_into(
                part[first_y:last_y, first_x:last_x],
                (
                    top / times - first_y,
                    left / times - first_x,
                    w[HEIGHT] / times,
                    w[WIDTH] / times,
                ),
                view_u8(canvas[0], (canvas[1], canvas[2], 3)),
                w[RESIZE_HEIGHT],
                w[RESIZE_WIDTH],
                w[PASTE_TOP],
                w[PASTE_LEFT],
                antialias[view],
                resizing,
            )
