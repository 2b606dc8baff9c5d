"""Operations that paint over part of an image, for the Kornia engine.

Kornia's own RandomErasing reads its rectangles from the device one by one.
"""

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.geometry import fill_color
from gpu_aug.engines.kornia.step import carries_out
from gpu_aug.ops import PixelDropout, RandomGridShuffle
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.random_fields import normal_field, uniform_field
from gpu_aug.upload import upload


@carries_out
def _holes(operation: Holes, x: Tensor, params: Params) -> Tensor:
    paint = operation.paint
    if paint == "random_uniform":
        for number in range(params["holes"].shape[1]):
            values = upload(params["colours"][:, number].astype(np.float32), x.device)
            painted = covered(params["holes"][:, number : number + 1], x)
            x = torch.where(painted, values[:, :, None, None], x)
        return x
    if isinstance(paint, str):
        field = uniform_field if paint == "random" else normal_field
        values = field(params["key"], tuple(x.shape[1:]), x.device)
    else:
        values = fill_color(paint, x)
    return torch.where(covered(params["holes"], x), values, x)


@carries_out
def _pixels(operation: PixelDropout, x: Tensor, params: Params) -> Tensor:
    shape = (x.shape[1] if operation.per_channel else 1, *x.shape[2:])
    dropped = uniform_field(params["key"], shape, x.device) < operation.dropout_prob
    scale = 255 if x.dtype == torch.uint8 else 1
    values = params["colour"] * scale
    values = np.rint(values).astype(np.uint8) if scale == 255 else values.astype(np.float32)
    if x.shape[1] != 3:  # one value for all channels
        values = values[:, :1]
    return torch.where(dropped, upload(values, x.device)[:, :, None, None], x)


@carries_out
def _shuffle(operation: RandomGridShuffle, x: Tensor, params: Params) -> Tensor:
    num_rows, num_columns = operation.grid
    num, _, height, width = x.shape
    tiles = params["tiles"].reshape(num, num_rows, num_columns, 4)
    # Which tile each row and each column belongs to, and how far away its source is.
    down = (np.arange(height)[:, None] >= tiles[:, None, :, 0, 0]).sum(axis=2) - 1
    along = (np.arange(width)[:, None] >= tiles[:, None, 0, :, 1]).sum(axis=2) - 1
    away = (params["sources"] - params["tiles"])[..., :2] @ np.array([width, 1])
    tile = upload(down * num_columns, x.device)[:, :, None] + upload(along, x.device)[:, None]
    index = upload(away, x.device).gather(1, tile.flatten(1))
    index += torch.arange(height * width, device=x.device)
    source = index[:, None].expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, source).view_as(x)


def covered(holes: np.ndarray, x: Tensor) -> Tensor:
    """Return where any rectangle lies, bool [n, 1, H, W]; ``holes`` is int64 [n, N, 4]."""
    top, left, bottom, right = np.moveaxis(holes, 2, 0)[..., None]
    rows, columns = np.arange(x.shape[2]), np.arange(x.shape[3])
    down = upload(((rows >= top) & (rows < bottom)).astype(np.float32), x.device)
    along = upload(((columns >= left) & (columns < right)).astype(np.float32), x.device)
    return (torch.bmm(down.transpose(1, 2), along) > 0)[:, None]
