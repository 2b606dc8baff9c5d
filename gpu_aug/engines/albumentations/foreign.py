"""Steps that are not ours, in the Albumentations engine."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import BatchStep, Image, Step, host_step, prepare
from gpu_aug.engines.seeded import (
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
    return host_step(albumentations_function(operation), operation.takes)


@prepare.register
def _torchvision(operation: TorchvisionTransform) -> Step:
    function = torchvision_function(operation)
    return host_step(function, "float32" if operation.takes == "float32" else "uint8")


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


def _on_batch_of_one(apply: Callable[[Tensor, Params], Tensor]) -> Step:
    def step(image: Image, params: Params, row: int) -> Image:
        x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
        one = {name: values[row : row + 1] for name, values in params.items()}
        return np.ascontiguousarray(apply(x, one)[0].permute(1, 2, 0).numpy())

    return step
