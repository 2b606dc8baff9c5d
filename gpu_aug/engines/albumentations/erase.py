"""Operations that paint over part of an image, on one image on the CPU."""

import numpy as np
import torch

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.geometry import fill_color
from gpu_aug.engines.albumentations.step import Image, carries_out
from gpu_aug.ops import PixelDropout, RandomGridShuffle
from gpu_aug.ops.dropout.erase import Holes
from gpu_aug.random_fields import normal_field, uniform_field


@carries_out
def _holes(operation: Holes, image: Image, params: Params, row: int) -> Image:
    paint = operation.paint
    painted = image.copy()
    values = np.array(fill_color(0.0 if isinstance(paint, str) else paint, image)[:3], image.dtype)
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


@carries_out
def _pixels(operation: PixelDropout, image: Image, params: Params, row: int) -> Image:
    channels = 3 if operation.per_channel else 1
    numbers = field(params["key"][row], image, channels=channels)
    values = np.array(fill_color(params["colour"][row], image)[:3], image.dtype)
    return np.where(numbers < operation.dropout_prob, values, image)


@carries_out
def _shuffle(_: RandomGridShuffle, image: Image, params: Params, row: int) -> Image:
    shuffled = np.empty_like(image)
    pairs = zip(params["tiles"][row], params["sources"][row], strict=True)
    for (top, left, bottom, right), (above, before, below, beside) in pairs:
        shuffled[top:bottom, left:right] = image[above:below, before:beside]
    return shuffled


def field(key: np.ndarray, image: Image, *, normal: bool = False, channels: int = 3) -> Image:
    """Return the noise of a key, float32 [H, W, channels]."""
    make = normal_field if normal else uniform_field
    shape = (channels, *image.shape[:2])
    return make(key[None], shape, torch.device("cpu"))[0].permute(1, 2, 0).numpy()
