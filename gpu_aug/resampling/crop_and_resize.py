"""The decode stage on images that are already decoded: crop, resize, paste."""

import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from gpu_aug.resampling.crops import Crops, Cut, cuts_of

# Scratch of each thread: the system would clear new memory each time.
_KEPT = threading.local()


def resize_on_canvas(
    cut: NDArray[np.uint8],
    size: tuple[int, int],
    paste: tuple[int, int],
    canvas: NDArray[np.uint8],
    *,
    antialias: bool,
) -> None:
    """Resize a crop and paste it on a canvas, by a kernel with the results of torch.

    Args:
        cut: The crop, uint8 [height, width, 3], with any strides.
        size: Height and width after resizing.
        paste: Top and left of the resized crop on the canvas; may be negative.
        canvas: The canvas, uint8 [canvas height, canvas width, 3], each row contiguous; every pixel of it is written.
        antialias: Whether pixels are averaged along a side that shrinks.
    """
    from gpu_aug.resampling.bilinear import resize_into, scratch_bytes

    height, width = cut.shape[:2]
    size_bytes = scratch_bytes(height, width, *size)
    scratch: NDArray[np.uint8] | None = getattr(_KEPT, "scratch", None)
    if scratch is None or scratch.size < size_bytes:
        scratch = _KEPT.scratch = np.empty(size_bytes, np.uint8)
    span = (0.0, 0.0, float(height), float(width))
    resize_into(cut, span, canvas, *size, *paste, antialias, scratch)


def resample(
    image: torch.Tensor,
    crops: Crops,
    row: int,
    out: torch.Tensor,
    *,
    origin: tuple[int, int] = (0, 0),
) -> None:
    """Crop an image as one row of Crops says, resize the crop and paste it on a canvas.

    The resize is torchvision's antialiased bilinear one; for uint8 it is torchvision's uint8 kernel.

    Args:
        image: The image [height, width, channels], uint8 or floating-point, after EXIF orientation: the full image, or a part of
            it that contains the crop.
        crops: Crops of a batch.
        row: Row of ``crops`` that is used.
        out: The canvas [canvas height, canvas width, channels], of the image's dtype and device; every pixel of it is written.
        origin: Top and left of ``image`` in the full image.
    """
    [cut] = cuts_of(crops, row, row + 1)
    render(image, cut, out, origin=origin)


def render(
    image: torch.Tensor, cut: Cut, out: torch.Tensor, *, origin: tuple[int, int] = (0, 0)
) -> None:
    """Crop an image, resize the crop and paste it on the canvas ``out``, as `resample` does, with the crop given as a Cut."""
    (top, left), (height, width) = cut.start, cut.shape
    top, left = top - origin[0], left - origin[1]
    part = image[top : top + height, left : left + width]
    if cut.is_plain:
        out.copy_(part)
        return
    if part.dtype == torch.uint8 and part.shape[2] == 3 and part.device.type == "cpu":
        # Neighbouring bytes: the kernel would gather those of planes one by one.
        packed = part if part.stride()[1:] == (3, 1) else part.contiguous()
        resize_on_canvas(
            packed.numpy(), cut.resize, cut.paste, out.numpy(), antialias=cut.antialias
        )
        return
    if cut.resize != cut.shape:
        # Contiguous and channels last: torch then resamples the three channels together, twice as fast.
        planar = part.contiguous()[None].permute(0, 3, 1, 2)
        planar = F.interpolate(planar, size=cut.resize, mode="bilinear", antialias=cut.antialias)
        part = planar[0].permute(1, 2, 0)
    if cut.paste == (0, 0) and cut.resize == cut.canvas:
        out.copy_(part)
    else:
        paste(part, *cut.paste, out)


def render_bytes(
    pixels: NDArray[np.uint8], cut: Cut, canvas: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Return the canvas of an array, uint8 [height, width, 3], cropped and resized as by `resample`.

    Without ``canvas`` a new one is made; if the crop needs no resizing or padding, the result is a view of the image.
    """
    (top, left), (height, width) = cut.start, cut.shape
    part = pixels[top : top + height, left : left + width]
    if cut.is_plain and canvas is None:
        return part
    canvas = np.empty((*cut.canvas, 3), np.uint8) if canvas is None else canvas
    if cut.is_plain:
        canvas[...] = part
    elif cut.resize == cut.shape:
        paste(part, *cut.paste, canvas)
    else:
        resize_on_canvas(part, cut.resize, cut.paste, canvas, antialias=cut.antialias)
    return canvas


def paste(image: Any, top: int, left: int, out: Any) -> None:
    """Paste images on black canvases; what extends beyond a canvas is cut off.

    Args:
        image: The images [..., height, width, channels], tensors or arrays.
        top: Row of the canvas at which the image starts; may be negative.
        left: Column of the canvas at which the image starts; may be negative.
        out: The canvases [..., canvas height, canvas width, channels], of the same kind; every pixel of them is written.
    """
    rows = _common(top, image.shape[-3], out.shape[-3])
    columns = _common(left, image.shape[-2], out.shape[-2])
    # Only the borders, as clearing all would take as long as pasting.
    above, below = out[..., : rows.start, :, :], out[..., rows.stop :, :, :]
    before, beyond = out[..., rows, : columns.start, :], out[..., rows, columns.stop :, :]
    for border in (above, below, before, beyond):
        border[...] = 0
    own_rows = slice(rows.start - top, rows.stop - top)
    own_columns = slice(columns.start - left, columns.stop - left)
    out[..., rows, columns, :] = image[..., own_rows, own_columns, :]


def _common(start: int, length: int, limit: int) -> slice:
    """Return the intersection of [start, start + length) and [0, limit) as a slice, which may be empty."""
    first = max(start, 0)
    return slice(first, max(min(start + length, limit), first))
