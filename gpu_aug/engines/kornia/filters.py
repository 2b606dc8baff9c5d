"""Operations that mix each pixel with its neighbours, in Kornia."""

import kornia.augmentation as K
import torch

from gpu_aug.engines.kornia.step import Step, module, prepare
from gpu_aug.ops import GaussianBlur


@prepare.register
def _blur(operation: GaussianBlur, _device: torch.device) -> Step:
    width = operation.kernel_size
    return module(K.RandomGaussianBlur((width, width), operation.sigma, p=1.0))
