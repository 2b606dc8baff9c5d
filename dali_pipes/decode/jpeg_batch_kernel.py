"""Compile the decode stage of JPEGs to one function, from encoded bytes to canvases."""

from typing import Any

from dali_pipes.jpeg.decode import decode_crop
from dali_pipes.jpeg.memory import memory_at, numbers
from gpu_aug.compiled.jit import kernel, signed, view_u8
from gpu_aug.resampling.bilinear import resize_in_kernel

ENCODED = numbers(
    "address num_bytes first_offset last_offset seek_points num_seek_points every judge noted"
)
"""An encoded image: its bytes, and its restart intervals as a half-open range of all offsets.

seek_points, num_seek_points, every, judge: As for `decode_crop`.
noted: Written: the number of seek points of a judged file; -1 if the status comes from the header alone."""

RECT = numbers("top left height width")
"""A rectangle in an image."""

CROP = numbers("top left height width resize_height resize_width paste_top paste_left")
"""A view's crop of an image, the size to which it is resized, and its position on the canvas; see gpu_aug.Crops."""


@kernel
def render_rows(
    encoded: Any,
    sizes: Any,
    parts: Any,
    shrink: Any,
    offsets: Any,
    crops: Any,
    canvases: Any,
    antialias: Any,
    memory: Any,
    statuses: Any,
) -> None:
    """Decode the needed part of n JPEGs and render the canvases of V views from each.

    Args:
        encoded: ENCODED [n]: the files; `noted` is written.
        sizes: int64 [n, 2]: height and width of the upright images.
        parts: RECT [n], the part of each image that all its views need. It begins at multiples of `shrink`, and ends at
            a multiple or at the end of the image.
        shrink: int64 [n], 1, 2, 4 or 8: the image is decoded at its size divided by this.
        offsets: int64 [...], offsets at which restart intervals begin, for files that have known ones.
        crops: CROP [V, n], the crop of each view.
        canvases: int64 [V, n, 3]: address, height and width of each canvas.
        antialias: bool [V], whether each view is low-pass filtered when it shrinks.
        memory: Three arrays, uint8 [...]: scratch for decoding, memory for the largest part, scratch for resizing.
        statuses: int32 [n], written: GOOD, or another status (an index into jpeg.REASONS), with which the canvases are
            undefined.
    """
    decoding, pixels, resizing = memory
    for row in range(len(statuses)):
        file, part, times = encoded[row], parts[row], shrink[row]
        shape = (-(-part.height // times), -(-part.width // times), 3)
        statuses[row] = decode_crop(
            file.address,
            file.num_bytes,
            (part.top, part.left, part.height, part.width),
            (sizes[row, 0], sizes[row, 1]),
            times,
            offsets[file.first_offset : file.last_offset],
            (file.seek_points, file.num_seek_points, file.every),
            file.judge != 0,
            pixels.ctypes.data,
            shape[1] * 3,
            decoding,
        )
        file.noted = memory_at(signed(decoding.ctypes.data)).job.noted
        if statuses[row] != 0:
            continue
        image = pixels[: shape[0] * shape[1] * 3].reshape(shape)
        for view in range(len(crops)):
            crop, canvas = crops[view, row], canvases[view, row]
            top, left = crop.top - part.top, crop.left - part.left
            first_y, last_y = top // times, -(-(top + crop.height) // times)
            first_x, last_x = left // times, -(-(left + crop.width) // times)
            resize_in_kernel(
                image[first_y:last_y, first_x:last_x],
                (
                    top / times - first_y,
                    left / times - first_x,
                    crop.height / times,
                    crop.width / times,
                ),
                view_u8(canvas[0], (canvas[1], canvas[2], 3)),
                crop.resize_height,
                crop.resize_width,
                crop.paste_top,
                crop.paste_left,
                antialias[view],
                resizing,
            )
