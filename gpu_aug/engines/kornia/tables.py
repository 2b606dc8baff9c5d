"""Lookup tables, color matrices and brightness maps, in torch."""

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, carries_out, host_step, prepare
from gpu_aug.engines.layout import to_unit_
from gpu_aug.ops.color.lookup_tables import EqualizeLuma, HistogramTable, Table
from gpu_aug.ops.color.matrices import ColorMatrix, Statistics
from gpu_aug.ops.color.shading import PlasmaBrightnessContrast, Shading, per_image
from gpu_aug.ops.color.stains import TISSUE_BELOW, HEStain
from gpu_aug.ops.noise.plasma import plasma
from gpu_aug.upload import upload

_ONE = 2.0**32


@prepare.register
def _table(operation: Table, _device: torch.device) -> Step:
    return lambda x, params: look_up(x, whole(x), upload(operation.tables(params), x.device))


@carries_out
def _histogram_table(operation: HistogramTable, x: Tensor, _params: Params) -> Tensor:
    levels = whole(x)
    num = torch.zeros(len(x), 3, 256, dtype=torch.int64, device=x.device)
    num.scatter_add_(2, levels, torch.ones_like(levels[:1, :1, :1]).expand_as(levels))
    return look_up(x, levels, operation.tables(num))


@prepare.register
def _equalize_luma(operation: EqualizeLuma, _device: torch.device) -> Step:
    from gpu_aug.engines.opencv import equalize_luma

    return host_step(lambda image, _params, _row: equalize_luma(image, operation), "uint8")


def whole(x: Tensor) -> Tensor:
    """Return the 8-bit values of images [n, 3, H, W] as int64 [n, 3, H * W]."""
    if x.dtype != torch.uint8:
        x = x.mul(255).round_().clamp_(0, 255)
    return x.flatten(2).long()


def look_up(x: Tensor, levels: Tensor, tables: Tensor) -> Tensor:
    """Look up 8-bit values, int64 [n, 3, H * W], in tables, uint8 [n, 3, 256]; like ``x``."""
    found = tables.gather(2, levels).view(x.shape)
    return found if x.dtype == torch.uint8 else to_unit_(found.float())


@carries_out
def _matrix(operation: ColorMatrix, x: Tensor, params: Params) -> Tensor:
    if operation.reads_image:
        drawn = on_device(params, x.device, torch.float64)
        matrix = operation.image_matrices(drawn, statistics(x)).float()
    else:
        matrix = upload(params["matrix"], x.device).float()
    # Channel by channel: a product of matrices on a GPU may round to 10 bits.
    matrix = matrix[..., None, None]
    result = matrix[:, :, 3].expand(-1, -1, *x.shape[2:])
    for channel in range(3):
        result = torch.addcmul(result, matrix[:, :, channel], x[:, channel : channel + 1])
    return result.clamp_(*operation.limits)


def statistics(x: Tensor) -> Statistics:
    """Return the statistics of float32 images [n, 3, H, W] in [0, 1].

    Sums are of integers, so that they do not depend on their order, the batch or the device.
    """
    values = x.flatten(2).double()
    num = values.shape[2]
    mean = _total(values) / num
    centered = values - mean[:, :, None]
    products = [_total(centered * centered[:, c : c + 1]) for c in range(3)]
    covariance = torch.stack(products, dim=1) / num
    return Statistics(mean, covariance, values.amin(dim=2), values.amax(dim=2), num)


def _total(values: Tensor) -> Tensor:
    return (values * _ONE).round_().long().sum(dim=2).double() / _ONE


@carries_out
def _shading(operation: Shading, x: Tensor, params: Params) -> Tensor:
    gain = operation.gain(params, (x.shape[2], x.shape[3]), x.device)
    return x.mul(gain).clamp_(0, 1)


@carries_out
def _plasma(operation: PlasmaBrightnessContrast, x: Tensor, params: Params) -> Tensor:
    clouds = plasma(params["key"], (x.shape[2], x.shape[3]), operation.roughness, x.device)
    [brightness] = per_image(params["brightness"], x.device)
    [contrast] = per_image(params["contrast"], x.device)
    x = x.add(clouds * brightness.clamp(min=0)).clamp_(0, 1)
    factor = 1 + clouds * contrast.clamp(min=0)
    mean = _total(x.flatten(2).double()).mean(dim=1) / (x.shape[2] * x.shape[3])
    raised = (x * factor).clamp_(0, 1)
    return raised.add_(mean.float().view(-1, 1, 1, 1) * (1 - factor)).clamp_(0, 1)


@carries_out
def _stain(operation: HEStain, x: Tensor, params: Params) -> Tensor:
    stains = params["stains"]
    back = np.linalg.inv(stains @ stains.swapaxes(1, 2) + 1e-6 * np.eye(2)) @ stains
    density = -x.clamp(min=1e-6).log()
    amounts = []
    for number in range(2):
        weights = per_image(back[:, number], x.device)
        amount = sum(density[:, c : c + 1] * weights[c] for c in range(3))
        scale, shift = (
            per_image(params[name][:, number], x.device)[0] for name in ("scale", "shift")
        )
        amounts.append((amount, amount * scale + shift))
    luma = x[:, :1] * 0.299 + x[:, 1:2] * 0.587 + x[:, 2:] * 0.114
    changes = torch.ones_like(luma, dtype=torch.bool)
    if not operation.augment_background:
        changes = luma < TISSUE_BELOW
    kept = [torch.where(changes, after, before) for before, after in amounts]
    colors = [per_image(stains[:, number], x.device) for number in range(2)]
    channels = [kept[0] * colors[0][c] + kept[1] * colors[1][c] for c in range(3)]
    return torch.cat(channels, dim=1).neg_().exp_().clamp_(0, 1)


def on_device(params: Params, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return drawn parameters as tensors, floating ones with ``dtype``."""
    tensors = {name: upload(values, device) for name, values in params.items()}
    return {
        name: values.to(dtype) if values.is_floating_point() else values
        for name, values in tensors.items()
    }
