"""The decode stage on images that are decoded already: cut, resample, paste."""

import threading

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from gpu_aug.resampling.crops import Crops

# Scratch of each thread: new memory would be cleared by the system each time.
_KEPT = threading.local()


def resize_on_canvas(
    cut: NDArray[np.uint8],
    size: tuple[int, int],
    paste: tuple[int, int],
    canvas: NDArray[np.uint8],
    *,
    antialias: bool,
) -> None:
    """Resize a cut and lay it on a canvas, by our own kernel, which gives what `resample` gives for uint8.

    Args:
        cut: uint8 [height, width, 3] of any strides.
        size: Height and width that it becomes.
        paste: Top and left on the canvas; may be negative.
        canvas: uint8 [canvas height, canvas width, 3], pixels side by side, written whole.
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
        image: [height, width, 3] on the CPU, uint8 or float32, upright: the whole image, or a part of
            it that holds the crop.
        crops: The batch's crops, one row of which is used.
        row: That row.
        out: [canvas height, canvas width, 3] of the same type, written whole.
        origin: Top and left of ``image`` in the whole image.
    """
    top, left = (crops.start[row] - origin).tolist()
    height, width = crops.shape[row].tolist()
    size = (int(crops.resize[row, 0]), int(crops.resize[row, 1]))
    # Contiguous and channels last: torch then resamples the three channels together, twice as fast.
    cut = image[top : top + height, left : left + width].contiguous()
    if size != tuple(cut.shape[:2]):
        planar = cut[None].permute(0, 3, 1, 2)
        planar = F.interpolate(planar, size=size, mode="bilinear", antialias=crops.antialias)
        cut = planar[0].permute(1, 2, 0)
    top, left = int(crops.paste[row, 0]), int(crops.paste[row, 1])
    if (top, left) == (0, 0) and size == tuple(out.shape[:2]):
        out.copy_(cut)
    else:
        paste(cut, top, left, out)


def paste(image: torch.Tensor, top: int, left: int, out: torch.Tensor) -> None:
    """Lay images [..., height, width, channels] on black canvases, cut off where they reach beyond these.

    Args:
        image: The images.
        top: Row of the canvas where the first row comes; may be negative.
        left: Column of the canvas where the first column comes; may be negative.
        out: [..., canvas height, canvas width, channels], written whole.
    """
    rows = _common(top, image.shape[-3], out.shape[-3])
    columns = _common(left, image.shape[-2], out.shape[-2])
    out.zero_()
    own_rows = slice(rows.start - top, rows.stop - top)
    own_columns = slice(columns.start - left, columns.stop - left)
    out[..., rows, columns, :] = image[..., own_rows, own_columns, :]


def _common(start: int, length: int, limit: int) -> slice:
    """The part of [start, start + length) in [0, limit); empty where there is none."""
    first = max(start, 0)
    return slice(first, max(min(start + length, limit), first))
