"""Steps that are not ours, in the Albumentations engine."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import BatchStep, Image, Step, prepare
from gpu_aug.engines.seeded import (
    OnImage,
    albumentations_function,
    batch_function,
    run_module,
    torchvision_function,
)
from gpu_aug.ops.foreign.function import BatchFunction
from gpu_aug.ops.foreign.transforms import (
    AlbumentationsTransform,
    KorniaModule,
    TorchvisionTransform,
)


@prepare.register
def _albumentations(operation: AlbumentationsTransform) -> Step:
    return _typed(albumentations_function(operation), eight_bits=operation.takes == "uint8")


@prepare.register
def _torchvision(operation: TorchvisionTransform) -> Step:
    return _typed(torchvision_function(operation), eight_bits=operation.takes != "float32")


@prepare.register
def _module(operation: KorniaModule) -> Step:
    module = deepcopy(operation.module).cpu()

    def apply(x: Tensor, params: Params) -> Tensor:
        return run_module(module, operation.title, x, params)

    return _on_batch_of_one(apply)


@prepare.register
def _function(operation: BatchFunction) -> BatchStep:
    apply = batch_function(operation)

    def step(images: list[Image], params: Params) -> list[Image]:
        rows = np.flatnonzero(params["apply"])
        if not len(rows):
            return images
        x = torch.from_numpy(np.stack([images[row].transpose(2, 0, 1) for row in rows]))
        drawn = {name: values[rows] for name, values in params.items()}
        for row, image in zip(rows.tolist(), apply(x, drawn), strict=True):
            images[row] = np.ascontiguousarray(image.permute(1, 2, 0).numpy())
        return images

    return step


def _typed(function: OnImage, *, eight_bits: bool) -> Step:
    """Round to 8 bits before, and divide 8 bits by 255 after."""

    def apply(image: Image, params: Params, row: int) -> Image:
        if eight_bits:
            image = np.rint(image * np.float32(255)).clip(0, 255).astype(np.uint8)
        result = function(image, params, row)
        return result.astype(np.float32) / np.float32(255) if result.dtype == np.uint8 else result

    return apply


def _on_batch_of_one(apply: Callable[[Tensor, Params], Tensor]) -> Step:
    def step(image: Image, params: Params, row: int) -> Image:
        x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
        one = {name: values[row : row + 1] for name, values in params.items()}
        return np.ascontiguousarray(apply(x, one)[0].permute(1, 2, 0).numpy())

    return step
