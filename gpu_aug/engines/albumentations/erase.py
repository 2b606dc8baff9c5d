"""Operations that paint over part of an image, in Albumentations."""

import albumentations as A
import numpy as np

from gpu_aug.draws import Params
from gpu_aug.engines.albumentations.step import Image, Step, inject, prepare
from gpu_aug.ops import RandomErasing


@prepare.register
def _erase(operation: RandomErasing) -> Step:
    call = A.Erasing(fill=operation.value)

    def erase(image: Image, params: Params, row: int) -> Image:
        (top, left), (height, width) = params["start"][row], params["shape"][row]
        hole = np.array([[left, top, left + width, top + height]])
        return inject(call, image, holes=hole, seed=0)

    return erase
