"""The decode stage on images that are decoded already: cut, resample, paste."""

import torch
from torch.nn import functional as F

from gpu_aug.windows import Windows


def resample(image: torch.Tensor, windows: Windows, row: int, out: torch.Tensor) -> None:
    """Cut a row's window out of an image, resize it and lay it on the canvas.

    This is torchvision's antialiased bilinear resize, for uint8 its own uint8 kernel.

    Args:
        image: [height, width, 3] on the CPU, uint8 or float32.
        windows: The batch's windows, one row of which is used.
        row: That row.
        out: [canvas height, canvas width, 3] of the same type, written whole.
    """
    top, left = windows.start[row].tolist()
    height, width = windows.shape[row].tolist()
    fit(image[top : top + height, left : left + width], windows, row, out)


def fit(cut: torch.Tensor, windows: Windows, row: int, out: torch.Tensor) -> None:
    """Like ``resample``, for a window that is already cut out."""
    size = (int(windows.resize[row, 0]), int(windows.resize[row, 1]))
    if size != tuple(cut.shape[:2]):
        # Contiguous and channels last: torch then resamples the three channels together, twice as fast.
        planar = cut.contiguous()[None].permute(0, 3, 1, 2)
        planar = F.interpolate(planar, size=size, mode="bilinear", antialias=windows.antialias)
        cut = planar[0].permute(1, 2, 0)
    top, left = int(windows.paste[row, 0]), int(windows.paste[row, 1])
    if (top, left) == (0, 0) and size == tuple(windows.canvas[row].tolist()):
        out.copy_(cut)
        return
    rows = slice(max(top, 0), min(top + size[0], out.shape[0]))
    columns = slice(max(left, 0), min(left + size[1], out.shape[1]))
    out.zero_()
    out[rows, columns] = cut[
        rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
    ]
