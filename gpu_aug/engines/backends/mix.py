"""Operations that mix neighbouring images of a batch.

Neither library is used: Kornia draws one gate and one order of partners per batch, and Albumentations takes the other images
from metadata.
"""

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import Image, numpy_step, torch_step
from gpu_aug.ops.mix import CutMix, MixUp, Mosaic
from gpu_aug.upload import upload


@torch_step
def _mixup_torch(operation: MixUp, x: Tensor, params: Params) -> Tensor:
    mixed = operation.mixed(params, params["partners"])[:, None]
    shares = np.where(mixed, operation.shares(params), [1.0, 0.0]).astype(np.float32)
    own, other = upload(shares, x.device).T[:, :, None, None, None]
    partner = x.index_select(0, upload(params["partners"][:, 0], x.device))
    return torch.where(own == 1, x, x * own + partner * other)


@numpy_step
def _mixup_numpy(operation: MixUp, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    shares = operation.shares(params).astype(np.float32)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        own, other = shares[row]
        out[row] = images[row] * own + images[params["partners"][row, 0]] * other
    return out


@torch_step
def _cutmix_torch(operation: CutMix, x: Tensor, params: Params) -> Tensor:
    mixed = operation.mixed(params, params["partners"])[:, None]
    start = params["start"]
    stop = np.where(mixed, start + params["shape"], start)
    ends = upload(np.stack([start, stop], axis=2), x.device)[:, :, :, None]
    across = []
    for axis, length in enumerate(x.shape[2:]):
        pixels = torch.arange(length, device=x.device)
        across.append((pixels >= ends[:, axis, 0]) & (pixels < ends[:, axis, 1]))
    inside = across[0][:, None, :, None] & across[1][:, None, None, :]
    partner = x.index_select(0, upload(params["partners"][:, 0], x.device))
    return torch.where(inside, partner, x)


@numpy_step
def _cutmix_numpy(operation: CutMix, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        window = slice(top, top + height), slice(left, left + width)
        out[row] = images[row].copy()
        out[row][window] = images[params["partners"][row, 0]][window]
    return out


@torch_step
def _mosaic_torch(operation: Mosaic, x: Tensor, params: Params) -> Tensor:
    out = x.clone()
    partners = params["partners"]
    sources, offsets = operation.sources(partners), operation.offsets(params)
    height, width = x.shape[2:]
    for row in np.flatnonzero(operation.mixed(params, partners)).tolist():
        for source, (top, left) in zip(sources[row].tolist(), offsets[row].tolist(), strict=True):
            rows, from_rows = overlap(top, height)
            columns, from_columns = overlap(left, width)
            out[row, :, rows, columns] = x[source, :, from_rows, from_columns]
    return out


@numpy_step
def _mosaic_numpy(operation: Mosaic, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    sources, offsets = operation.sources(params["partners"]), operation.offsets(params)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        height, width = images[row].shape[:2]
        out[row] = np.empty_like(images[row])
        for source, (top, left) in zip(sources[row], offsets[row], strict=True):
            rows, from_rows = overlap(top, height)
            columns, from_columns = overlap(left, width)
            out[row][rows, columns] = images[source][from_rows, from_columns]
    return out


def overlap(offset: int, length: int) -> tuple[slice, slice]:
    """Intersect a tile at ``offset`` with a window, both of ``length`` pixels, along one axis.

    Returns:
        The slice of the window that the tile covers, and the slice of the tile that lies in the window.
    """
    start, stop = max(offset, 0), min(offset + length, length)
    return slice(start, max(start, stop)), slice(start - offset, max(start, stop) - offset)
