"""Spatial operations on masks, integers [M, H, W], with nearest-pixel sampling; all engines share them.

A mask gets the kind of border of its image: its own last pixels mirrored or repeated, or a constant. The source of a pixel is the
pixel into which its centre falls, computed in float64.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gpu_aug.engines.sources import fold, nearest_pixels
from gpu_aug.resampling.grid import displaced, sources

Masks = NDArray[Any]
Size = tuple[int, int]

_CPU = torch.device("cpu")  # all targets are moved on the host


def cut(
    masks: Masks, start: NDArray[np.int64], shape: NDArray[np.int64], padding_mode: str, fill: int
) -> Masks:
    """Return the crop of masks with the corner ``start`` (top, left) and the size ``shape``; see spatial.Crop.

    If it lies inside, it is a view of the masks.
    """
    (top, left), (height, width) = start.tolist(), shape.tolist()
    if min(top, left) >= 0 and top + height <= masks.shape[1] and left + width <= masks.shape[2]:
        return masks[:, top : top + height, left : left + width]
    rows, columns = np.arange(top, top + height), np.arange(left, left + width)
    return _take(masks, rows, columns, padding_mode, fill)


def resample(
    masks: Masks,
    start: NDArray[np.int64],
    shape: NDArray[np.int64],
    resize: NDArray[np.int64],
    padding_mode: str,
    fill: int,
    *,
    floor: bool = False,
) -> Masks:
    """Return a crop of masks resized to ``resize``; see spatial.Resample.

    A new pixel takes the pixel into which its centre falls (torch's "nearest-exact"), or its top-left corner if ``floor``
    ("nearest" of torchvision and OpenCV).
    """
    rows, columns = (
        int(start[axis]) + nearest_pixels(int(shape[axis]), int(resize[axis]), floor=floor)
        for axis in (0, 1)
    )
    return _take(masks, rows, columns, padding_mode, fill)


def reorient(masks: Masks, transpose: bool, top_bottom: bool, left_right: bool) -> Masks:
    """Return masks transposed, then flipped; see spatial.Reorient."""
    if masks.size and masks.itemsize == 1 and (transpose or left_right):
        import cv2

        # OpenCV moves bytes in a tenth of the time in which NumPy copies such a view.
        layers = [*masks.view(np.uint8)]
        layers = [cv2.transpose(layer) for layer in layers] if transpose else layers
        layers = [cv2.flip(layer, 1) for layer in layers] if left_right else layers
        return np.stack(layers)[:, :: -1 if top_bottom else 1].view(masks.dtype)
    masks = masks.transpose(0, 2, 1) if transpose else masks
    return masks[:, :: -1 if top_bottom else 1, :: -1 if left_right else 1]


def warp(
    masks: Masks, matrix: NDArray[np.float64], size: Size, padding_mode: str, fill: int
) -> Masks:
    """Return masks warped to ``size`` by a matrix [3, 3] from input to output positions, in continuous coordinates."""
    x, y = sources(matrix[None], size, _CPU)
    return _gather(masks, x[0].numpy(), y[0].numpy(), padding_mode, fill)


def remap(masks: Masks, field: NDArray[np.float32], padding_mode: str, fill: int) -> Masks:
    """Return masks resampled along a displacement field [2, H, W]; see spatial.Remap."""
    x, y = displaced(torch.from_numpy(field)[None])
    return _gather(masks, x[0].numpy(), y[0].numpy(), padding_mode, fill)


def shuffle(masks: Masks, tiles: NDArray[np.int64], sources: NDArray[np.int64]) -> Masks:
    """Return masks whose rectangles ``tiles`` show those of ``sources``, int64 [n, 4] each; see RandomGridShuffle."""
    shuffled = masks.copy()
    for (top, left, bottom, right), (above, before, below, after) in zip(
        tiles, sources, strict=True
    ):
        shuffled[:, top:bottom, left:right] = masks[:, above:below, before:after]
    return shuffled


def hidden_by(holes: NDArray[np.int64], size: Size) -> NDArray[np.bool_]:
    """Return which pixels lie in one of the rectangles [n, 4] (top, left, bottom, right), bool [H, W]."""
    hidden = np.zeros(size, bool)
    for top, left, bottom, right in np.maximum(holes, 0):
        hidden[top:bottom, left:right] = True
    return hidden


def tight_boxes(masks: Masks) -> NDArray[np.float64]:
    """Return the smallest box around the pixels of each mask that are not 0, float64 [M, 4]; (0, 0, 0, 0) without such pixels."""
    import cv2

    boxes = np.zeros((len(masks), 4))
    for box, mask in zip(boxes, masks, strict=True):
        left, top, width, height = cv2.boundingRect((mask != 0).view(np.uint8))
        box[:] = left, top, left + width, top + height
    return boxes


def _take(
    masks: Masks, rows: NDArray[Any], columns: NDArray[Any], padding_mode: str, fill: int
) -> Masks:
    _, height, width = masks.shape
    taken: Masks = masks[:, fold(rows, height, padding_mode)]
    taken = taken[:, :, fold(columns, width, padding_mode)]
    if padding_mode == "constant":
        taken[:, (rows < 0) | (rows >= height)] = fill
        taken[:, :, (columns < 0) | (columns >= width)] = fill
    return taken


def _gather(
    masks: Masks, x: NDArray[np.float64], y: NDArray[np.float64], padding_mode: str, fill: int
) -> Masks:
    """Return the pixels into which the points (x, y), [H, W] each, fall; NaN counts as outside the image."""
    num, height, width = masks.shape
    known = np.isfinite(x) & np.isfinite(y)
    if padding_mode == "constant":
        known &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
    limit = 2.0**40  # larger coordinates would not fit into int64
    column, row = (
        np.floor(np.where(known, np.clip(points, -limit, limit), 0)).astype(np.int64)
        for points in (x, y)
    )
    if padding_mode != "constant":
        column, row = fold(column, width, padding_mode), fold(row, height, padding_mode)
    taken: Masks = masks.reshape(num, height * width).take(row * width + column, axis=1)
    np.copyto(taken, fill, where=~known, casting="unsafe")
    return taken
