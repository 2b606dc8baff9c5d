"""Operations that add noise, in Kornia's engine. Kornia draws its fields itself, so that these are torch."""

import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import carries_out
from gpu_aug.ops import ISONoise, Noise, SaltAndPepper, ShotNoise
from gpu_aug.random_fields import poisson
from gpu_aug.upload import upload


@carries_out
def _noise(operation: Noise, x: Tensor, params: Params) -> Tensor:
    field = operation.field(params, (x.shape[2], x.shape[3]), x.device)
    noisy = x * field if operation.multiplies else x + field
    return noisy.clamp_(0, 1) if operation.clamps else noisy


@carries_out
def _salt(operation: SaltAndPepper, x: Tensor, params: Params) -> Tensor:
    ranks = operation.ranks(params, (x.shape[2], x.shape[3]), x.device)
    changed, salt = (
        upload(params[name], x.device)[:, None, None, None] for name in ("num_changed", "num_salt")
    )
    white = 255 if x.dtype == torch.uint8 else 1
    return x.masked_fill(ranks < changed, 0).masked_fill(ranks < salt, white)


@carries_out
def _shot(operation: ShotNoise, x: Tensor, params: Params) -> Tensor:
    scale = upload(params["scale"], x.device)[:, None, None, None]
    rate = x.double().clamp_(0).pow_(2.2).div_(scale).add_(1e-6)
    dice = operation.dice(params, (x.shape[2], x.shape[3]), x.device)
    count = poisson(dice, rate, 1 / float(params["scale"].min()) + 1e-6)
    # In float64: on a CPU, torch's float32 powers depend on the place in memory by a last bit.
    return count.double().mul_(scale).clamp_(0, 1).pow_(1 / 2.2).float()


@carries_out
def _iso(operation: ISONoise, x: Tensor, params: Params) -> Tensor:
    size = (int(x.shape[2]), int(x.shape[3]))
    hue, lightness, saturation = _rgb_to_hls(x)
    intensity = upload(params["intensity"], x.device)[:, None, None]
    deviation = lightness.double().var(dim=(1, 2), correction=0, keepdim=True).sqrt_()
    dice = operation.lightness_dice(params, size, x.device)
    count = poisson(dice, deviation * intensity, operation.largest_rate)
    lightness = lightness + count.mul_(intensity.float()).mul_(1 - lightness)
    hue = hue + operation.hue_noise(params, size, x.device)
    return _hls_to_rgb(hue, lightness.clamp_(0, 1), saturation)


def _rgb_to_hls(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue in degrees, lightness and saturation, [n, H, W] each, as OpenCV does."""
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
    """Return [n, 3, H, W] in [0, 1]; hue is any angle in degrees."""
    strength = saturation * torch.minimum(lightness, 1 - lightness)
    channels = []
    for offset in (0, 8, 4):
        angle = torch.remainder(hue / 30 + offset, 12)
        channels.append(lightness - strength * torch.minimum(angle - 3, 9 - angle).clamp_(-1, 1))
    return torch.stack(channels, dim=1).clamp_(0, 1)
