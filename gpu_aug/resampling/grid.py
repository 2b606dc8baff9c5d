"""Positions in the input image of the pixels of a warped image, and nearest-pixel sampling, for every engine.

Positions are computed in float64, from matrices that the host inverts, so that every device and engine takes the same pixels, and
masks take them too (``gpu_aug.targets.masks``).
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.ops.geometric.spatial import Matrices
from gpu_aug.upload import upload

_FAR = 2.0**40
"""Larger coordinates would not fit into int64."""


def inverses(matrix: Matrices) -> Matrices:
    """Return the inverses of matrices, [B, 3, 3]; NaN for matrices without an inverse."""
    known = np.isfinite(matrix).all(axis=(1, 2)) & (np.linalg.det(matrix) != 0)
    back = np.full_like(matrix, np.nan)
    back[known] = np.linalg.inv(matrix[known])
    return back


def sources(matrix: Matrices, size: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the positions in the input image of the pixel centres of the result.

    Args:
        matrix: Matrices from the input image to the result, float64 [B, 3, 3], in continuous coordinates, as
            ``Moving.forward`` returns them.
        size: Height and width of the result.
        device: Device of the positions.

    Returns:
        x and y, float64 [B, H, W], in continuous coordinates: the pixel in column j covers [j, j + 1). Behind the horizon of a
        projective matrix the image appears a second time, as in OpenCV and torchvision.
    """
    back = inverses(matrix)
    rows = upload(back.reshape(-1, 9), device).T[:, :, None, None]
    height, width = size
    x = torch.arange(0.5, width, dtype=torch.float64, device=device)
    y = torch.arange(0.5, height, dtype=torch.float64, device=device)[:, None]
    source_x = rows[0] * x + (rows[1] * y + rows[2])
    source_y = rows[3] * x + (rows[4] * y + rows[5])
    if (back[:, 2] != (0, 0, 1)).any():
        distance = rows[6] * x + (rows[7] * y + rows[8])
        source_x, source_y = source_x / distance, source_y / distance
    return source_x, source_y


def displaced(displacement: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positions in the input image, x and y, that displacements give.

    Args:
        displacement: Displacements, float32 [B, 2, H, W], as ``Remap.displacement`` returns them.

    Returns:
        x and y, float64 [B, H, W], in continuous coordinates.
    """
    height, width = displacement.shape[2:]
    x = torch.arange(0.5, width, dtype=torch.float64, device=displacement.device)
    y = torch.arange(0.5, height, dtype=torch.float64, device=displacement.device)[:, None]
    return displacement[:, 0].double() + x, displacement[:, 1].double() + y


def take_nearest(
    images: Tensor, x: Tensor, y: Tensor, padding_mode: str, fill: tuple[float, ...]
) -> Tensor:
    """Return the pixels into which points fall.

    Args:
        images: The images [B, C, H, W], of any dtype.
        x: Columns of the points, [B, h, w], in continuous coordinates; NaN counts as outside the image with every padding.
        y: Rows of the points, [B, h, w], in continuous coordinates.
        padding_mode: Values outside the image; see Spatial.
        fill: Fill, one value per channel, in the units of the images.

    Returns:
        The pixels [B, C, h, w], of the dtype of the images.
    """
    num, channels, height, width = images.shape
    column, row = _whole(x), _whole(y)
    beside = (column < 0) | (column >= width) | (row < 0) | (row >= height)
    if padding_mode != "constant":
        beside = x.isnan() | y.isnan()
    source = _inside(row, height, padding_mode) * width + _inside(column, width, padding_mode)
    source = source.reshape(num, 1, -1).expand(-1, channels, -1)
    taken = images.reshape(num, channels, -1).gather(2, source).view(num, channels, *x.shape[1:])
    values = upload(torch.tensor(fill, dtype=images.dtype), images.device).view(1, -1, 1, 1)
    return torch.where(beside[:, None], values, taken)


def take_bicubic(images: Tensor, x: Tensor, y: Tensor, fill: tuple[float, ...]) -> Tensor:
    """Return 8-bit pixels interpolated as by Pillow's bicubic transforms.

    The kernel has the parameter a = -1 and not -0.5 as in Pillow's resize. Pixels beyond the image repeat its edge, the
    result is rounded down, and points outside the image get the fill without a transition.

    Args:
        images: The images [B, C, H, W], whole numbers from 0 to 255 as float32.
        x: Columns of the points, float64 [B, h, w], in continuous coordinates; NaN counts as outside the image.
        y: Rows of the points, float64 [B, h, w], in continuous coordinates.
        fill: Fill, one value per channel, in 0 to 255.

    Returns:
        The pixels [B, C, h, w], whole numbers as float32.

    Source: Pillow's Geometry.c, BICUBIC.
    """
    num, channels, height, width = images.shape
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    x, y = (torch.where(inside, points - 0.5, 0.0) for points in (x, y))
    column, row = x.floor(), y.floor()
    along, down = ((points - points.floor()).float()[:, None] for points in (x, y))
    flat = images.reshape(num, channels, -1)
    lines = []
    for step in range(-1, 3):
        start = (row.long() + step).clamp(0, height - 1) * width
        taps = [
            flat.gather(
                2,
                (start + (column.long() + tap).clamp(0, width - 1))
                .view(num, 1, -1)
                .expand(-1, channels, -1),
            )
            for tap in range(-1, 3)
        ]
        lines.append(_cubic([tap.view(num, channels, *x.shape[1:]) for tap in taps], along))
    values = _cubic(lines, down).floor_().clamp_(0, 255)
    border = upload(torch.tensor(fill, dtype=images.dtype), images.device).view(1, -1, 1, 1)
    return torch.where(inside[:, None], values, border)


def _cubic(taps: list[Tensor], distance: Tensor) -> Tensor:
    """Return values between the two middle ones of four taps, in the order of Pillow's sums: equal taps give their value exactly."""
    before, first, second, after = taps
    square = 2 * (before - first) + second - after
    cube = first - before - second + after
    return first + distance * ((second - before) + distance * (square + distance * cube))


def channel_fill(
    fill: float | tuple[float, ...], dtype: torch.dtype, channels: int = 3
) -> tuple[float, ...]:
    """Return a fill as one value per channel: in [0, 1], or for uint8 images scaled to 255 and rounded."""
    values = np.broadcast_to(np.asarray(fill, np.float64), channels)
    return tuple((np.rint(values * 255) if dtype == torch.uint8 else values).tolist())


def to_index(matrix: Matrices) -> NDArray[np.float64]:
    """Convert matrices between continuous coordinates to matrices between pixel indices."""
    to_corner, to_center = np.eye(3), np.eye(3)
    to_corner[:2, 2], to_center[:2, 2] = 0.5, -0.5
    moved: NDArray[np.float64] = to_center @ matrix @ to_corner
    return moved


def _whole(points: Tensor) -> Tensor:
    return points.nan_to_num(-1.0, _FAR, -_FAR).clamp(-_FAR, _FAR).floor().long()


def _inside(pixels: Tensor, length: int, padding_mode: str) -> Tensor:
    """Return pixel indices, some of them outside a line of ``length``, replaced by the index that padding shows there."""
    if padding_mode == "reflect":
        pixels = pixels.remainder(max(2 * (length - 1), 1))
        return torch.where(pixels < length, pixels, 2 * (length - 1) - pixels)
    if padding_mode == "symmetric":
        pixels = pixels.remainder(2 * length)
        return torch.where(pixels < length, pixels, 2 * length - 1 - pixels)
    return pixels.clamp(0, length - 1)
