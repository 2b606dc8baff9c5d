"""Operations that add noise.

Kornia draws its noise itself, so batches get the noise of gpu_aug, computed in torch.
"""

from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import Image, numpy_step, torch_step
from gpu_aug.ops import ISONoise, Noise, SaltAndPepper, ShotNoise
from gpu_aug.random_fields import poisson
from gpu_aug.upload import upload

_CPU = torch.device("cpu")  # of images that are NumPy arrays


def combined(combine: Any, image: Image, field: Tensor, *, clamps: bool = True) -> Image:
    """Return a new float32 image, ``combine`` of an image and of a field of numbers.

    Args:
        combine: np.add or np.multiply.
        image: The image, float32 [H, W, 3].
        field: The numbers, float32 [1, 1 or 3, H or 1, W or 1].
        clamps: Whether the result is clamped to [0, 1].
    """
    # The field in the layout of the image: without the copy, NumPy takes four times as long.
    result: Image = cv2.merge([*field[0].expand(3, *image.shape[:2]).numpy()])
    combine(image, result, out=result)
    return np.clip(result, 0, 1, out=result) if clamps else result


@torch_step
def _noise_torch(operation: Noise, x: Tensor, params: Params) -> Tensor:
    field = operation.field(params, (x.shape[2], x.shape[3]), x.device)
    noisy = x * field if operation.multiplies else x + field
    return noisy.clamp_(0, 1) if operation.clamps else noisy


@numpy_step
def _noise_numpy(operation: Noise, image: Image, params: Params, row: int) -> Image:
    field = operation.field(row_of(params, row), image.shape[:2], _CPU)
    combine = np.multiply if operation.multiplies else np.add
    return combined(combine, image, field, clamps=operation.clamps)


@torch_step
def _salt_torch(operation: SaltAndPepper, x: Tensor, params: Params) -> Tensor:
    ranks = operation.ranks(params, (x.shape[2], x.shape[3]), x.device)
    changed, salt = (
        upload(params[name], x.device)[:, None, None, None] for name in ("num_changed", "num_salt")
    )
    white = 255 if x.dtype == torch.uint8 else 1
    return x.masked_fill(ranks < changed, 0).masked_fill(ranks < salt, white)


@numpy_step
def _salt_numpy(operation: SaltAndPepper, image: Image, params: Params, row: int) -> Image:
    size, num_changed = image.shape[:2], int(params["num_changed"][row])
    changed = operation.order(row_of(params, row), size, _CPU, num_changed)[0].numpy()
    num_salt, result = params["num_salt"][row], image.copy()
    pixels = result.reshape(-1, 3)
    pixels[changed[:num_salt]] = 255 if image.dtype == np.uint8 else 1
    pixels[changed[num_salt:]] = 0
    return result


@torch_step
def _shot_torch(operation: ShotNoise, x: Tensor, params: Params) -> Tensor:
    scale = upload(params["scale"], x.device)[:, None, None, None]
    rate = x.double().clamp_(0).pow_(2.2).div_(scale).add_(1e-6)
    dice = operation.dice(params, (x.shape[2], x.shape[3]), x.device)
    count = poisson(dice, rate, 1 / float(params["scale"].min()) + 1e-6)
    # In float64: on a CPU, torch's float32 powers depend on the place in memory by a last bit.
    return count.double().mul_(scale).clamp_(0, 1).pow_(1 / 2.2).float()


@numpy_step
def _shot_numpy(operation: ShotNoise, image: Image, params: Params, row: int) -> Image:
    scale = float(params["scale"][row])
    # Albumentations' own function rounds the rates to float32, which moves some thresholds.
    rate = np.maximum(image, 0).astype(np.float64) ** 2.2 / scale + 1e-6
    dice = operation.dice(row_of(params, row), image.shape[:2], _CPU)[0].permute(1, 2, 0)
    count = poisson(dice, torch.from_numpy(rate), 1 / scale + 1e-6).double().numpy()
    bright: Image = (np.clip(count * scale, 0, 1) ** (1 / 2.2)).astype(np.float32)
    return bright


@torch_step
def _iso_torch(operation: ISONoise, x: Tensor, params: Params) -> Tensor:
    size = (int(x.shape[2]), int(x.shape[3]))
    hue, lightness, saturation = _rgb_to_hls(x)
    intensity = upload(params["intensity"], x.device)[:, None, None]
    deviation = lightness.double().var(dim=(1, 2), correction=0, keepdim=True).sqrt_()
    dice = operation.lightness_dice(params, size, x.device)
    count = poisson(dice, deviation * intensity, operation.largest_rate)
    lightness = lightness + count.mul_(intensity.float()).mul_(1 - lightness)
    hue = hue + operation.hue_noise(params, size, x.device)
    return _hls_to_rgb(hue, lightness.clamp_(0, 1), saturation)


@numpy_step
def _iso_numpy(operation: ISONoise, image: Image, params: Params, row: int) -> Image:
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


def _rgb_to_hls(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue in degrees, lightness and saturation of images [n, 3, H, W], each [n, H, W]; as OpenCV computes them."""
    red, green, blue = x.unbind(1)
    high, low = x.amax(1), x.amin(1)
    spread, total = high - low, high + low
    gray = spread <= torch.finfo(torch.float32).eps
    divisor = spread.masked_fill(gray, 1)
    hue = torch.where(
        high == red,
        (green - blue) / divisor,
        torch.where(high == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    saturation = spread / torch.where(total < 1, total, 2 - total).masked_fill(gray, 1)
    return (hue * 60).masked_fill_(gray, 0), total / 2, saturation.masked_fill_(gray, 0)


def _hls_to_rgb(hue: Tensor, lightness: Tensor, saturation: Tensor) -> Tensor:
    """Return the RGB images, [n, 3, H, W] in [0, 1], of hue (any angle in degrees), lightness and saturation."""
    strength = saturation * torch.minimum(lightness, 1 - lightness)
    channels = []
    for offset in (0, 8, 4):
        angle = torch.remainder(hue / 30 + offset, 12)
        channels.append(lightness - strength * torch.minimum(angle - 3, 9 - angle).clamp_(-1, 1))
    return torch.stack(channels, dim=1).clamp_(0, 1)
