"""Rows for operations that paint over part of an image."""

from typing import Any

import albumentations as A
import numpy as np
import torch
from torchvision.transforms.v2 import functional as tv

from gpu_aug import (
    CoarseDropout,
    Erasing,
    GridDropout,
    GridMask,
    PixelDropout,
    RandomErasing,
    RandomGridShuffle,
    XYMasking,
)
from gpu_aug.random_fields import normal_field, uniform_field
from tests.support.rows.row import SIZE, Row, inject

CPU = torch.device("cpu")
RED = (1.0, 0.2, 0.0)
MOVED = {"holes": 1.0}


def erase(value: Any) -> Any:
    def paint(x: torch.Tensor, p: dict) -> torch.Tensor:
        [[top, left, bottom, right]] = p["holes"].tolist()
        v = torch.tensor(value, dtype=torch.float32).view(-1, 1, 1)
        return tv.erase(x, top, left, bottom - top, right - left, v)

    return paint


def noise(field: Any) -> Any:
    """Torchvision's erase with the noise that belongs to the key."""

    def paint(x: torch.Tensor, p: dict) -> torch.Tensor:
        values = field(p["key"][None], tuple(x.shape), CPU)[0]
        for top, left, bottom, right in p["holes"].tolist():
            v = values[:, top:bottom, left:right]
            x = tv.erase(x, top, left, bottom - top, right - left, v)
        return x

    return paint


def cutout(fill: Any) -> Any:
    """Albumentations' own cutting out."""

    def paint(x: torch.Tensor, p: dict) -> torch.Tensor:
        holes = p["holes"][:, [1, 0, 3, 2]]
        return inject(A.CoarseDropout(fill=fill), x, holes=holes, seed=0)

    return paint


def colours(x: torch.Tensor, p: dict) -> torch.Tensor:
    for (top, left, bottom, right), colour in zip(p["holes"], p["colours"], strict=True):
        v = torch.tensor(colour, dtype=torch.float32).view(3, 1, 1)
        x = tv.erase(x, int(top), int(left), int(bottom - top), int(right - left), v)
    return x


def pixels(share: float, channels: int) -> Any:
    def paint(x: torch.Tensor, p: dict) -> torch.Tensor:
        numbers = uniform_field(p["key"][None], (channels, *SIZE), CPU)[0]
        mask = (numbers < share).expand(3, -1, -1).permute(1, 2, 0).numpy()
        call = A.PixelDropout(share)
        return inject(call, x, drop_mask=mask, drop_values=np.float32(p["colour"]))

    return paint


def shuffle(x: torch.Tensor, p: dict) -> torch.Tensor:
    tiles, sources = p["tiles"].tolist(), p["sources"].tolist()
    # Albumentations' mapping says where each tile goes.
    mapping = [sources.index(tile) for tile in tiles]
    return inject(A.RandomGridShuffle(), x, tiles=p["tiles"], mapping=mapping)


ROWS = {
    "erase": Row(RandomErasing(0.7), MOVED, erase(0.0)),
    "erase with value": Row(RandomErasing(0.7, value=0.3), MOVED, erase(0.3), 1e-5),
    "erase with colour": Row(RandomErasing(0.7, value=RED), MOVED, erase(RED), 1e-5),
    "erase with noise": Row(RandomErasing(0.7, value="random"), MOVED, noise(normal_field)),
    "erasing": Row(Erasing(p=0.7), MOVED, cutout(0.0)),
    "coarse dropout": Row(
        CoarseDropout((3, 8), (4, 20), (4, 20), fill=RED, p=0.9), MOVED, cutout(RED), 1e-5
    ),
    "coarse dropout with noise": Row(
        CoarseDropout((1, 3), fill="random", p=0.9), MOVED, noise(uniform_field)
    ),
    "coarse dropout with colours": Row(
        CoarseDropout((3, 6), (0.2, 0.5), (0.2, 0.5), fill="random_uniform", p=0.9), MOVED, colours
    ),
    "grid dropout": Row(GridDropout(p=0.9), MOVED, cutout(0.0)),
    "grid dropout by unit": Row(
        GridDropout(0.4, False, (8, 12), shift_xy=(2, 1), fill=0.5, p=0.9), MOVED, cutout(0.5)
    ),
    "gridmask": Row(GridMask((15, 40), p=0.9), MOVED, cutout(0.0)),
    "gridmask, stripes": Row(GridMask((15, 40), mode="stripes", p=0.9), MOVED, cutout(0.0)),
    "xy masking": Row(XYMasking((1, 3), 2, (5, 20), (0, 9), fill=0.5, p=0.9), MOVED, cutout(0.5)),
    "pixel dropout": Row(PixelDropout(0.1, p=0.9), {"colour": 0.01}, pixels(0.1, 1)),
    "pixel dropout per channel": Row(
        PixelDropout(0.1, per_channel=True, drop_value=RED), {"colour": 0.01}, pixels(0.1, 3)
    ),
    "pixel dropout, any colour": Row(
        PixelDropout(0.3, drop_value=None), {"colour": 0.01}, pixels(0.3, 1)
    ),
    "grid shuffle": Row(RandomGridShuffle((3, 4), p=0.9), {"apply": 1}, shuffle),
}
