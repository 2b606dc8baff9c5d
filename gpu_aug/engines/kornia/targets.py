"""Operations that change targets alone, in Kornia: images stay as they are."""

import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, prepare
from gpu_aug.ops.boxes import OnTargets


@prepare.register
def _keep(_: OnTargets, _device: torch.device) -> Step:
    def keep(x: Tensor, _params: Params) -> Tensor:
        return x

    return keep
