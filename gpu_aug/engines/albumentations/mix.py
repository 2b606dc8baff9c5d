"""Operations that mix neighbouring images, in NumPy.

Albumentations mixes with images out of metadata, not with those of a batch.
"""

import numpy as np

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, carries_out
from gpu_aug.ops.mix import CutMix, MixUp, Mosaic


@carries_out
def _mixup(operation: MixUp, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    shares = operation.shares(params).astype(np.float32)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        own, other = shares[row]
        out[row] = images[row] * own + images[params["partners"][row, 0]] * other
    return out


@carries_out
def _cutmix(operation: CutMix, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        window = slice(top, top + height), slice(left, left + width)
        out[row] = images[row].copy()
        out[row][window] = images[params["partners"][row, 0]][window]
    return out


@carries_out
def _mosaic(operation: Mosaic, images: list[Image], params: Params) -> list[Image]:
    out = list(images)
    sources, offsets = operation.sources(params["partners"]), operation.offsets(params)
    for row in np.flatnonzero(operation.mixed(params, params["partners"])):
        height, width = images[row].shape[:2]
        out[row] = np.empty_like(images[row])
        for source, (top, left) in zip(sources[row], offsets[row], strict=True):
            above, before = max(-top, 0), max(-left, 0)
            tile = images[source][above : height - max(top, 0), before : width - max(left, 0)]
            top, left = max(top, 0), max(left, 0)
            out[row][top : top + tile.shape[0], left : left + tile.shape[1]] = tile
    return out
