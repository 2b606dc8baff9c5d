"""Operations that mix neighbouring images, on any device.

Kornia's own mixing modules draw one gate and one order of partners per batch, so this is torch.
"""

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import carries_out
from gpu_aug.ops.mix import CutMix, MixUp, Mosaic
from gpu_aug.upload import upload


@carries_out
def _mixup(operation: MixUp, x: Tensor, params: Params) -> Tensor:
    mixed = operation.mixed(params, params["partners"])[:, None]
    shares = np.where(mixed, operation.shares(params), [1.0, 0.0]).astype(np.float32)
    own, other = upload(shares, x.device).T[:, :, None, None, None]
    partner = x.index_select(0, upload(params["partners"][:, 0], x.device))
    return torch.where(own == 1, x, x * own + partner * other)


@carries_out
def _cutmix(operation: CutMix, x: Tensor, params: Params) -> Tensor:
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


@carries_out
def _mosaic(operation: Mosaic, x: Tensor, params: Params) -> Tensor:
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


def overlap(offset: int, length: int) -> tuple[slice, slice]:
    """Where a tile at ``offset`` lies in a window of the same length, and which part of it does."""
    start, stop = max(offset, 0), min(offset + length, length)
    return slice(start, max(start, stop)), slice(start - offset, max(start, stop) - offset)
