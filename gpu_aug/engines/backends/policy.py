"""The operations of automatic policies such as RandAugment.

Neither library is used: Kornia draws one policy per batch and has other magnitudes, and Albumentations rounds to nearest.
Products and sums are rounded as in torchvision, so that rounding down at the end gives the same 8-bit values.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import (
    Image,
    NumpyStep,
    TorchStep,
    on_rows,
    prepare_numpy,
    prepare_torch,
)
from gpu_aug.engines.layout import to_levels, to_unit_
from gpu_aug.ops.geometric.spatial import Warp
from gpu_aug.ops.policy.policy import AugMix
from gpu_aug.ops.policy.space import BLENDS, ROUND_UP, PolicyBlend, PolicyWarp
from gpu_aug.resampling.grid import channel_fill, sources, take_bicubic
from gpu_aug.upload import upload

Function = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Whole numbers as float32 [n, 3, H, W], the factor and 1 - factor, [n, 1, 1, 1], in; new ones out."""


Floats = NDArray[np.float32]


@prepare_torch.register
def _policy_warp_torch(operation: PolicyWarp, device: torch.device) -> TorchStep:
    if operation.interpolation == "bicubic":
        return lambda x, params: _bicubic(operation, x, params)
    warp: TorchStep = prepare_torch.dispatch(Warp)(operation, device)
    if operation.interpolation == "nearest":
        return warp
    return lambda x, params: to_unit_(
        warp(x, params).mul_(255).add_(ROUND_UP).floor_().clamp_(0, 255)
    )


@prepare_numpy.register
def _policy_warp_numpy(operation: PolicyWarp) -> NumpyStep:
    if operation.interpolation == "bicubic":
        return partial(_bicubic_numpy, operation)
    warp: NumpyStep = prepare_numpy.dispatch(Warp)(operation)
    if operation.interpolation == "nearest":
        return warp

    def rounded(image: Image, params: Params, row: int) -> Image:
        values = np.floor(warp(image, params, row) * np.float32(255) + np.float32(ROUND_UP))
        clipped: Image = np.clip(values, 0, 255) / np.float32(255)
        return clipped

    return rounded


def _bicubic(operation: PolicyWarp, x: Tensor, params: Params) -> Tensor:
    size = (x.shape[2], x.shape[3])
    forward = operation.forward(params, np.broadcast_to(np.array(size), (len(x), 2)))
    fill = channel_fill(operation.fill, torch.uint8)
    return to_unit_(take_bicubic(to_levels(x), *sources(forward, size, x.device), fill))


def _bicubic_numpy(operation: PolicyWarp, image: Image, params: Params, row: int) -> Image:
    x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
    warped = _bicubic(operation, x, row_of(params, row))[0]
    return np.ascontiguousarray(warped.permute(1, 2, 0).numpy())


@prepare_torch.register
def _blend_torch(_: PolicyBlend, _device: torch.device) -> TorchStep:
    steps = [
        _in_8_bit(function)
        for function in (_brightness_torch, _color_torch, _contrast_torch, _sharpness_torch)
    ]

    def blend(x: Tensor, params: Params) -> Tensor:
        for kind in range(len(BLENDS)):
            x = on_rows(steps[kind], x, params | {"apply": params["kind"] == kind})
        return x

    return blend


@prepare_numpy.register
def _blend_numpy(_: PolicyBlend) -> NumpyStep:
    functions: dict[str, Callable[[Floats, Any, Any], Floats]] = dict(
        zip(
            BLENDS,
            (_brightness_numpy, _color_numpy, _contrast_numpy, _sharpness_numpy),
            strict=True,
        )
    )

    def blend(image: Image, params: Params, row: int) -> Image:
        function = functions[BLENDS[params["kind"][row]]]
        factor = params["factor"][row]
        is_uint8 = image.dtype == np.uint8
        whole = image.astype(np.float32) if is_uint8 else np.clip(np.rint(image * 255), 0, 255)
        changed = function(whole.astype(np.float32), np.float32(factor), np.float32(1 - factor))
        changed = np.floor(np.clip(changed, 0, 255))
        return changed.astype(np.uint8) if is_uint8 else changed / np.float32(255)

    return blend


@prepare_torch.register
def _augmix_torch(operation: AugMix, device: torch.device) -> TorchStep:
    steps = [prepare_torch(carrier, device) for carrier in operation.carriers]

    def mix(x: Tensor, params: Params) -> Tensor:
        weights = upload(params["weights"].astype(np.float32), x.device)[:, :, None, None, None]
        mixed, chains = x * weights[:, 0], [x.clone() for _ in range(operation.mixture_width)]
        for chain, carrier, drawn in operation.carried(params):
            chains[chain] = on_rows(steps[carrier], chains[chain], drawn)
        for chain, changed in enumerate(chains):
            mixed += changed * weights[:, 1 + chain]
        return mixed

    return mix


@prepare_numpy.register
def _augmix_numpy(operation: AugMix) -> NumpyStep:
    steps = [prepare_numpy(carrier) for carrier in operation.carriers]

    def mix(image: Image, params: Params, row: int) -> Image:
        weights = params["weights"][row].astype(np.float32)
        chains = [image] * operation.mixture_width
        for chain, carrier, drawn in operation.carried(params):
            if drawn["apply"][row]:
                chains[chain] = steps[carrier](chains[chain], drawn, row)
        mixed: Image = image * weights[0]
        for changed, weight in zip(chains, weights[1:], strict=True):
            mixed += changed * weight
        return mixed

    return mix


def _in_8_bit(function: Function) -> TorchStep:
    def step(x: Tensor, params: Params) -> Tensor:
        factor = params["factor"][:, None, None, None]
        weights = np.stack([factor, 1 - factor]).astype(np.float32)
        whole = x.float() if x.dtype == torch.uint8 else to_levels(x)
        changed = function(whole, *upload(weights, x.device)).clamp_(0, 255).floor_()
        return changed.to(torch.uint8) if x.dtype == torch.uint8 else to_unit_(changed)

    return step


def _brightness_torch(x: Tensor, factor: Tensor, _: Tensor) -> Tensor:
    return x * factor


def _brightness_numpy(x: Floats, factor: Any, _: Any) -> Floats:
    product: Floats = x * factor
    return product


def _color_torch(x: Tensor, factor: Tensor, rest: Tensor) -> Tensor:
    return _add_torch(x * factor, _gray_torch(x), rest)


def _color_numpy(x: Floats, factor: Any, rest: Any) -> Floats:
    return _add_numpy(x * factor, _gray_numpy(x)[:, :, None], rest)


def _contrast_torch(x: Tensor, factor: Tensor, rest: Tensor) -> Tensor:
    mean = _gray_torch(x).mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64).float()
    return _add_torch(x * factor, mean, rest)


def _contrast_numpy(x: Floats, factor: Any, rest: Any) -> Floats:
    mean = np.float32(_gray_numpy(x).mean(dtype=np.float64))
    return _add_numpy(x * factor, mean, rest)


def _sharpness_torch(x: Tensor, _: Tensor, rest: Tensor) -> Tensor:
    if min(x.shape[2:]) <= 2:
        return x
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    inner = x[:, :, 1:-1, 1:-1]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner
    blurred = torch.floor((2 * total + 13) / 26)  # round(total / 13), which is never a half
    sharp = x.clone()
    sharp[:, :, 1:-1, 1:-1] = _add_torch(inner, blurred - inner, rest)
    return sharp


def _sharpness_numpy(x: Floats, _: Any, rest: Any) -> Floats:
    if min(x.shape[:2]) <= 2:
        return x
    kernel = np.ones((3, 3), np.float32)
    kernel[1, 1] = 5
    total = cv2.filter2D(x, -1, kernel)[1:-1, 1:-1]
    blurred = np.floor((2 * total + 13) / 26)  # round(total / 13), which is never a half
    inner = x[1:-1, 1:-1]
    sharp = x.copy()
    sharp[1:-1, 1:-1] = _add_numpy(inner, blurred - inner, rest)
    return sharp


def _gray_torch(x: Tensor) -> Tensor:
    red, green, blue = x[:, :1], x[:, 1:2], x[:, 2:]
    weights = torch.tensor([0.2989, 0.587, 0.114])
    return _add_torch(_add_torch(red * weights[0], green, weights[1]), blue, weights[2]).floor_()


def _gray_numpy(x: Floats) -> Floats:
    red, green, blue = x.transpose(2, 0, 1)
    weights = np.array([0.2989, 0.587, 0.114], np.float32)
    return np.floor(_add_numpy(_add_numpy(red * weights[0], green, weights[1]), blue, weights[2]))


def _add_torch(a: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    """Return a + factor * b, computed in float64 and rounded to float32 once, as by torch.add with alpha."""
    return (a.double() + b.double() * factor.double()).float()


def _add_numpy(a: Any, b: Any, factor: Any) -> Floats:
    """Return a + factor * b, computed in float64 and rounded to float32 once, as by torch.add with alpha."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    total: Floats = (a + b * np.float64(factor)).astype(np.float32)
    return total
