"""The operations that policies choose from, on any device.

Kornia's own policies draw per batch and have other magnitudes, so this is torch. Products and sums
are rounded as torchvision's are, so that rounding down at the end gives the same whole numbers.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, on_rows, prepare
from gpu_aug.engines.layout import to_unit_
from gpu_aug.ops.geometric.spatial import Warp
from gpu_aug.ops.policy.policy import AugMix
from gpu_aug.ops.policy.space import BLENDS, ROUND_UP, PolicyBlend, PolicyWarp
from gpu_aug.upload import upload


@prepare.register
def _policy_warp(operation: PolicyWarp, device: torch.device) -> Step:
    warp: Step = prepare.dispatch(Warp)(operation, device)
    if operation.interpolation == "nearest":
        return warp
    return lambda x, params: to_unit_(
        warp(x, params).mul_(255).add_(ROUND_UP).floor_().clamp_(0, 255)
    )


@prepare.register
def _blend(_: PolicyBlend, _device: torch.device) -> Step:
    steps = [_in_8_bit(function) for function in (_brightness, _color, _contrast, _sharpness)]

    def blend(x: Tensor, params: Params) -> Tensor:
        for kind in range(len(BLENDS)):
            x = on_rows(steps[kind], x, params | {"apply": params["kind"] == kind})
        return x

    return blend


@prepare.register
def _augmix(operation: AugMix, device: torch.device) -> Step:
    steps = [prepare(carrier, device) for carrier in operation.carriers]

    def mix(x: Tensor, params: Params) -> Tensor:
        weights = upload(params["weights"].astype(np.float32), x.device)[:, :, None, None, None]
        mixed, chains = x * weights[:, 0], [x.clone() for _ in range(operation.mixture_width)]
        for chain, carrier, drawn in operation.carried(params):
            chains[chain] = on_rows(steps[carrier], chains[chain], drawn)
        for chain, changed in enumerate(chains):
            mixed += changed * weights[:, 1 + chain]
        return mixed

    return mix


Function = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Whole numbers as float32 [n, 3, H, W], the factor and 1 - factor, [n, 1, 1, 1], in; new ones out."""


def _in_8_bit(function: Function) -> Step:
    def step(x: Tensor, params: Params) -> Tensor:
        factor = params["factor"][:, None, None, None]
        weights = np.stack([factor, 1 - factor]).astype(np.float32)
        whole = x.float() if x.dtype == torch.uint8 else x.mul(255).round_().clamp_(0, 255)
        changed = function(whole, *upload(weights, x.device)).clamp_(0, 255).floor_()
        return changed.to(torch.uint8) if x.dtype == torch.uint8 else to_unit_(changed)

    return step


def _brightness(x: Tensor, factor: Tensor, _: Tensor) -> Tensor:
    return x * factor


def _color(x: Tensor, factor: Tensor, rest: Tensor) -> Tensor:
    return _add(x * factor, _gray(x), rest)


def _contrast(x: Tensor, factor: Tensor, rest: Tensor) -> Tensor:
    mean = _gray(x).mean(dim=(1, 2, 3), keepdim=True, dtype=torch.float64).float()
    return _add(x * factor, mean, rest)


def _sharpness(x: Tensor, _: Tensor, rest: Tensor) -> Tensor:
    if min(x.shape[2:]) <= 2:
        return x
    rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
    inner = x[:, :, 1:-1, 1:-1]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * inner
    blurred = torch.floor((2 * total + 13) / 26)  # round(total / 13), which is never a half
    sharp = x.clone()
    sharp[:, :, 1:-1, 1:-1] = _add(inner, blurred - inner, rest)
    return sharp


def _gray(x: Tensor) -> Tensor:
    red, green, blue = x[:, :1], x[:, 1:2], x[:, 2:]
    weights = torch.tensor([0.2989, 0.587, 0.114])
    return _add(_add(red * weights[0], green, weights[1]), blue, weights[2]).floor_()


def _add(a: Tensor, b: Tensor, factor: Tensor) -> Tensor:
    """Return a + factor * b, rounded to float32 once, as torch's add with alpha does."""
    return (a.double() + b.double() * factor.double()).float()
