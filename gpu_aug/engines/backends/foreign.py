"""Operations that wrap transforms, modules and functions of other libraries or of the user."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draw_operations import row_of
from gpu_aug.draws import Params
from gpu_aug.engines.backends.step import (
    BatchStep,
    Image,
    NumpyStep,
    TorchStep,
    host_step_numpy,
    host_step_torch,
    prepare_numpy,
    prepare_torch,
)
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


@prepare_torch.register
def _albumentations_torch(operation: AlbumentationsTransform, device: torch.device) -> TorchStep:  # noqa: ARG001
    return host_step_torch(albumentations_function(operation), operation.takes)


@prepare_numpy.register
def _albumentations_numpy(operation: AlbumentationsTransform) -> NumpyStep:
    return host_step_numpy(albumentations_function(operation), operation.takes)


@prepare_torch.register
def _torchvision_torch(operation: TorchvisionTransform, device: torch.device) -> TorchStep:  # noqa: ARG001
    function = torchvision_function(operation)
    return host_step_torch(function, "float32" if operation.takes == "float32" else "uint8")


@prepare_numpy.register
def _torchvision_numpy(operation: TorchvisionTransform) -> NumpyStep:
    function = torchvision_function(operation)
    return host_step_numpy(function, "float32" if operation.takes == "float32" else "uint8")


@prepare_torch.register
def _module_torch(operation: KorniaModule, device: torch.device) -> TorchStep:
    module = deepcopy(operation.module).to(device)

    def apply(x: Tensor, params: Params) -> Tensor:
        return run_module(module, operation.title, x, params)

    return apply


@prepare_numpy.register
def _module_numpy(operation: KorniaModule) -> NumpyStep:
    module = deepcopy(operation.module).cpu()

    def apply(x: Tensor, params: Params) -> Tensor:
        return run_module(module, operation.title, x, params)

    return _on_batch_of_one(apply)


@prepare_torch.register
def _function_torch(operation: BatchFunction, device: torch.device) -> TorchStep:  # noqa: ARG001
    return batch_function(operation)


@prepare_numpy.register
def _function_numpy(operation: BatchFunction) -> BatchStep:
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


def _on_batch_of_one(apply: Callable[[Tensor, Params], Tensor]) -> NumpyStep:
    def step(image: Image, params: Params, row: int) -> Image:
        x = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
        return np.ascontiguousarray(apply(x, row_of(params, row))[0].permute(1, 2, 0).numpy())

    return step
