"""Operations that add noise, in Albumentations, with our random fields."""

import albumentations as A
import cv2
import numpy as np
import torch

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, carries_out, inject
from gpu_aug.ops import ISONoise, Noise, SaltAndPepper, ShotNoise
from gpu_aug.random_fields import poisson

_CPU = torch.device("cpu")
_ADD, _MULTIPLY, _SALT = A.GaussNoise(), A.MultiplicativeNoise(), A.SaltAndPepper()


@carries_out
def _noise(operation: Noise, image: Image, params: Params, row: int) -> Image:
    field = operation.field(row_of(params, row), image.shape[:2], _CPU)[0]
    whole = field.permute(1, 2, 0).expand(image.shape).contiguous().numpy()
    if operation.multiplies:
        return inject(_MULTIPLY, image, multiplier=whole)
    return inject(_ADD, image, noise_map=whole) if operation.clamps else image + whole


@carries_out
def _salt(operation: SaltAndPepper, image: Image, params: Params, row: int) -> Image:
    ranks = operation.ranks(row_of(params, row), image.shape[:2], _CPU)[0, 0].numpy()
    changed, salt = params["num_changed"][row], params["num_salt"][row]
    result = inject(
        _SALT, image, salt_mask=ranks < salt, pepper_mask=(salt <= ranks) & (ranks < changed)
    )
    return result.astype(image.dtype)


@carries_out
def _shot(operation: ShotNoise, image: Image, params: Params, row: int) -> Image:
    scale = float(params["scale"][row])
    # Albumentations' own function rounds the rates to float32, which moves some thresholds.
    rate = np.maximum(image, 0).astype(np.float64) ** 2.2 / scale + 1e-6
    dice = operation.dice(row_of(params, row), image.shape[:2], _CPU)[0].permute(1, 2, 0)
    count = poisson(dice, torch.from_numpy(rate), 1 / scale + 1e-6).double().numpy()
    bright: Image = (np.clip(count * scale, 0, 1) ** (1 / 2.2)).astype(np.float32)
    return bright


@carries_out
def _iso(operation: ISONoise, image: Image, params: Params, row: int) -> Image:
    # As Albumentations' iso_noise, with our numbers, and hues wrapped: OpenCV's vector code
    # continues negative hues beyond the colours there are, its scalar code does not.
    intensity, mine = np.float32(params["intensity"][row]), row_of(params, row)
    hls = cv2.cvtColor(image, cv2.COLOR_RGB2HLS)
    size, (hue, lightness, _) = image.shape[:2], cv2.split(hls)
    deviation = cv2.meanStdDev(hls)[1][1] * params["intensity"][row]
    dice = operation.lightness_dice(mine, size, _CPU)[0]
    count = poisson(dice, torch.from_numpy(deviation), operation.largest_rate).numpy()
    hls[..., 0] = (hue + operation.hue_noise(mine, size, _CPU)[0].numpy()) % 360
    hls[..., 1] = np.clip(lightness + count * intensity * (1 - lightness), 0, 1)
    noisy: Image = np.clip(cv2.cvtColor(hls, cv2.COLOR_HLS2RGB), 0, 1)
    return noisy
