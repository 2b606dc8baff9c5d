"""Operations that paint over parts of an image.

Kornia's RandomErasing is not used: it reads its rectangles from the device one at a time.
"""

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.backends.geometry import fill_color_numpy, fill_color_torch
from gpu_aug.engines.backends.step import Image, numpy_step, torch_step
from gpu_aug.ops import PixelDropout, RandomGridShuffle
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.random_fields import normal_field, uniform_field
from gpu_aug.upload import upload


@torch_step
def _holes_torch(operation: Holes, x: Tensor, params: Params) -> Tensor:
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
        values = fill_color_torch(paint, x)
    return torch.where(covered(params["holes"], x), values, x)


@numpy_step
def _holes_numpy(operation: Holes, image: Image, params: Params, row: int) -> Image:
    paint = operation.paint
    painted = image.copy()
    values = np.array(
        fill_color_numpy(0.0 if isinstance(paint, str) else paint, image)[:3], image.dtype
    )
    noise = None
    if paint in ("random", "normal"):
        noise = field(params["key"][row], image, normal=paint == "normal")
    for number, (top, left, bottom, right) in enumerate(params["holes"][row].tolist()):
        if noise is not None:
            values = noise[top:bottom, left:right]
        elif paint == "random_uniform":
            values = params["colours"][row, number].astype(np.float32)
        painted[top:bottom, left:right] = values
    return painted


@torch_step
def _pixels_torch(operation: PixelDropout, x: Tensor, params: Params) -> Tensor:
    shape = (x.shape[1] if operation.per_channel else 1, *x.shape[2:])
    dropped = uniform_field(params["key"], shape, x.device) < operation.dropout_prob
    scale = 255 if x.dtype == torch.uint8 else 1
    values = params["colour"] * scale
    values = np.rint(values).astype(np.uint8) if scale == 255 else values.astype(np.float32)
    if x.shape[1] != 3:  # one value for all channels
        values = values[:, :1]
    return torch.where(dropped, upload(values, x.device)[:, :, None, None], x)


@numpy_step
def _pixels_numpy(operation: PixelDropout, image: Image, params: Params, row: int) -> Image:
    channels = 3 if operation.per_channel else 1
    numbers = field(params["key"][row], image, channels=channels)
    values = np.array(fill_color_numpy(params["colour"][row], image)[:3], image.dtype)
    return np.where(numbers < operation.dropout_prob, values, image)


@torch_step
def _shuffle_torch(operation: RandomGridShuffle, x: Tensor, params: Params) -> Tensor:
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


@numpy_step
def _shuffle_numpy(_: RandomGridShuffle, image: Image, params: Params, row: int) -> Image:
    shuffled = np.empty_like(image)
    pairs = zip(params["tiles"][row].tolist(), params["sources"][row].tolist(), strict=True)
    for (top, left, bottom, right), (above, before, below, beside) in pairs:
        shuffled[top:bottom, left:right] = image[above:below, before:beside]
    return shuffled


def covered(holes: np.ndarray, x: Tensor) -> Tensor:
    """Return a mask of the pixels inside any rectangle, bool [n, 1, H, W]; ``holes`` is int64 [n, N, 4]."""
    top, left, bottom, right = np.moveaxis(holes, 2, 0)[..., None]
    rows, columns = np.arange(x.shape[2]), np.arange(x.shape[3])
    down = upload(((rows >= top) & (rows < bottom)).astype(np.float32), x.device)
    along = upload(((columns >= left) & (columns < right)).astype(np.float32), x.device)
    return (torch.bmm(down.transpose(1, 2), along) > 0)[:, None]


def field(key: np.ndarray, image: Image, *, normal: bool = False, channels: int = 3) -> Image:
    """Return the random noise that a key determines, float32 [H, W, channels], with the size of ``image``."""
    make = normal_field if normal else uniform_field
    shape = (channels, *image.shape[:2])
    return make(key[None], shape, torch.device("cpu"))[0].permute(1, 2, 0).numpy()
