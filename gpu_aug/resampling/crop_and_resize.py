"""The decode stage on images that are decoded already: cut, resample, paste."""

import threading

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
    """Resize a cut and lay it on a canvas, by our own kernel, which gives what torch's gives.

    Args:
        cut: uint8 [height, width, 3] of any strides.
        size: Height and width that it becomes.
        paste: Top and left on the canvas; may be negative.
        canvas: uint8 [canvas height, canvas width, 3], pixels side by side, all of it is written.
        antialias: Whether a shrinking side is averaged.
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
    """Cut a row's crop out of an image, resize it and lay it on the canvas.

    This is torchvision's antialiased bilinear resize, for uint8 its own uint8 kernel.

    Args:
        image: [height, width, channels], uint8 or floating, upright: the full image, or a part of
            it that holds the crop.
        crops: The batch's crops, one row of which is used.
        row: That row.
        out: [canvas height, canvas width, channels] of the same type and on the same device, all of it is written.
        origin: Top and left of ``image`` in the full image.
    """
    [cut] = cuts_of(crops, row, row + 1)
    render(image, cut, out, origin=origin)


def render(
    image: torch.Tensor, cut: Cut, out: torch.Tensor, *, origin: tuple[int, int] = (0, 0)
) -> None:
    """Do the same for a row of Crops in Python's numbers."""
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
    """Do the same for an array, uint8 [height, width, 3]; without a canvas a plain cut is a view of the image."""
    (top, left), (height, width) = cut.start, cut.shape
    part = pixels[top : top + height, left : left + width]
    if cut.is_plain and canvas is None:
        return part
    canvas = np.empty((*cut.canvas, 3), np.uint8) if canvas is None else canvas
    if cut.is_plain:
        canvas[...] = part
    else:
        resize_on_canvas(part, cut.resize, cut.paste, canvas, antialias=cut.antialias)
    return canvas


def paste(image: torch.Tensor, top: int, left: int, out: torch.Tensor) -> None:
    """Lay images [..., height, width, channels] on black canvases, cut off where they reach beyond these.

    Args:
        image: The images.
        top: Row of the canvas where the first row comes; may be negative.
        left: Column of the canvas where the first column comes; may be negative.
        out: [..., canvas height, canvas width, channels], all of it is written.
    """
    rows = _common(top, image.shape[-3], out.shape[-3])
    columns = _common(left, image.shape[-2], out.shape[-2])
    out.zero_()
    own_rows = slice(rows.start - top, rows.stop - top)
    own_columns = slice(columns.start - left, columns.stop - left)
    out[..., rows, columns, :] = image[..., own_rows, own_columns, :]


def _common(start: int, length: int, limit: int) -> slice:
    """Return the part of [start, start + length) in [0, limit), which may be empty."""
    first = max(start, 0)
    return slice(first, max(min(start + length, limit), first))
