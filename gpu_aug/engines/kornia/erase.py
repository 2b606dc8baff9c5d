"""Operations that paint over part of an image, in Kornia."""

import kornia.augmentation as K
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.engines.kornia.step import Step, host, prepare
from gpu_aug.ops import RandomErasing


@prepare.register
def _erase(operation: RandomErasing, _device: torch.device) -> Step:
    module = K.RandomErasing(p=1.0)

    def erase(x: Tensor, params: Params) -> Tensor:
        corner, shape = host(params["start"]), host(params["shape"])
        rectangles = {
            "xs": corner[:, 1],
            "ys": corner[:, 0],
            "widths": shape[:, 1],
            "heights": shape[:, 0],
            "values": torch.full((len(x),), operation.value),
        }
        erased: Tensor = module.apply_transform(x, rectangles, module.flags)
        return erased

    return erase
