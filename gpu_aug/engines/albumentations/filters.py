"""Operations that mix each pixel with its neighbours, in Albumentations."""

import albumentations as A
import numpy as np

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, inject, prepare
from gpu_aug.ops import GaussianBlur


@prepare.register
def _blur(operation: GaussianBlur) -> Step:
    call = A.GaussianBlur()
    offsets = np.arange(operation.kernel_size) - operation.kernel_size // 2

    def blur(image: Image, params: Params, row: int) -> Image:
        weights = np.exp(-0.5 * (offsets / params["sigma"][row]) ** 2)
        return inject(call, image, kernel=weights / weights.sum())

    return blur
