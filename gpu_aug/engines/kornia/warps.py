"""Operations that resample along a matrix or a field of displacements, in torch.

Kornia's own warps know neither mirrored borders of both kinds nor another fill for nearest pixels,
so the grid is made here: from matrices that are inverted on the host, in float64.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import carries_out
from gpu_aug.ops.geometric.spatial import Matrices, Remap, Spatial, Warp
from gpu_aug.resampling.grid import channel_fill, displaced, inverses, sources, take_nearest
from gpu_aug.upload import upload

Size = tuple[int, int]

_PADDING = {
    "constant": "zeros",
    "edge": "border",
    "reflect": "reflection",
    "symmetric": "reflection",
}


@carries_out
def _warp(operation: Warp, x: Tensor, params: Params) -> Tensor:
    size = (x.shape[2], x.shape[3])
    # All images have one size here, so all rows have the same shape afterwards.
    height, width = params["shape"][0].tolist() if "shape" in params else size
    if operation.interpolation == "nearest":
        sizes = np.broadcast_to(np.array(size), (len(x), 2))
        points = sources(operation.forward(params, sizes), (height, width), x.device)
        return take_nearest(
            x, *points, operation.padding_mode, channel_fill(operation.fill, x.dtype, x.shape[1])
        )
    scale, shift = _normalization(operation, size)
    normalized = np.eye(3)
    normalized[[0, 1], [0, 1]], normalized[:2, 2] = scale, shift
    back = normalized @ inverses(params["matrix"])
    return _sample(operation, x, _grid(back, (height, width), x.device))


@carries_out
def _remap(operation: Remap, x: Tensor, params: Params) -> Tensor:
    height, width = x.shape[2:]
    moved = operation.displacement(params, (height, width), x.device)
    if operation.interpolation == "nearest":
        points = displaced(moved)
        return take_nearest(
            x, *points, operation.padding_mode, channel_fill(operation.fill, x.dtype, x.shape[1])
        )
    scale, shift = _normalization(operation, (height, width))
    columns = torch.arange(width, dtype=torch.float32, device=x.device)
    rows = torch.arange(height, dtype=torch.float32, device=x.device)[:, None]
    grid = torch.stack(
        [
            (moved[:, 0] + columns) * scale[0] + shift[0],
            (moved[:, 1] + rows) * scale[1] + shift[1],
        ],
        dim=-1,
    )
    return _sample(operation, x, grid)


def _normalization(operation: Spatial, size: Size) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return scale and shift, (x, y) each, from indices of pixels to what grid_sample takes."""
    lengths = (size[1], size[0])
    if operation.padding_mode == "reflect":  # about the centres of the outer pixels
        return tuple(2 / max(n - 1, 1) for n in lengths), (-1.0, -1.0)
    return tuple(2 / n for n in lengths), tuple(1 / n - 1 for n in lengths)


def _grid(back: Matrices, size: Size, device: torch.device) -> Tensor:
    """Return the points that ``back`` makes of the indices of the pixels, float32 [B, *size, 2]."""
    height, width = size
    rows = upload(back, device)[:, None, None]  # [B, 1, 1, 3, 3]
    x = torch.arange(width, dtype=torch.float64, device=device).view(1, 1, -1, 1)
    y = torch.arange(height, dtype=torch.float64, device=device).view(1, -1, 1, 1)
    if (back[:, 2] == (0, 0, 1)).all():
        # Two short tables in float64 and one sum in float32, as exact as grid_sample itself.
        along_x, along_y = x * rows[..., :2, 0], y * rows[..., :2, 1] + rows[..., :2, 2]
        return along_x.float() + along_y.float()
    points = x * rows[..., 0] + (y * rows[..., 1] + rows[..., 2])
    return (points[..., :2] / points[..., 2:]).float()


def _sample(operation: Spatial, x: Tensor, grid: Tensor) -> Tensor:
    def sample(images: Tensor) -> Tensor:
        return F.grid_sample(
            images,
            grid,
            mode=operation.interpolation,
            padding_mode=_PADDING[operation.padding_mode],
            align_corners=operation.padding_mode == "reflect",
        )

    if operation.padding_mode != "constant":
        return sample(x)
    fill = _upload_fill(operation, x)
    if operation.blend == "once":
        return sample(x) if fill is None else sample(x - fill).add_(fill)
    sampled = sample(torch.cat([x, torch.ones_like(x[:, :1])], dim=1))
    images, covered = sampled[:, :-1], sampled[:, -1:]
    return images * covered if fill is None else (images - fill) * covered + fill


def _upload_fill(operation: Spatial, x: Tensor) -> Tensor | None:
    if not np.any(operation.fill):
        return None
    values = np.array(channel_fill(operation.fill, x.dtype, x.shape[1]), np.float32)
    return upload(values, x.device).view(1, -1, 1, 1)
