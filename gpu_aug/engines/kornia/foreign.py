"""Steps that are not ours, in the Kornia engine."""

from copy import deepcopy

import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, host_step, prepare
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
def _albumentations(operation: AlbumentationsTransform, device: torch.device) -> Step:  # noqa: ARG001
    return host_step(albumentations_function(operation), operation.takes)


@prepare.register
def _torchvision(operation: TorchvisionTransform, device: torch.device) -> Step:  # noqa: ARG001
    function = torchvision_function(operation)
    return host_step(function, "float32" if operation.takes == "float32" else "uint8")


@prepare.register
def _module(operation: KorniaModule, device: torch.device) -> Step:
    module = deepcopy(operation.module).to(device)

    def apply(x: Tensor, params: Params) -> Tensor:
        return run_module(module, operation.title, x, params)

    return apply


@prepare.register
def _function(operation: BatchFunction, device: torch.device) -> Step:  # noqa: ARG001
    return batch_function(operation)
