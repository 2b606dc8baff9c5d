"""Operations that change values, in Albumentations."""

import albumentations as A

from gpu_aug.engines.albumentations.step import Step, prepare, transform
from gpu_aug.ops import ColorJitter, Grayscale, Normalize
from gpu_aug.ops.colour import FACTORS


@prepare.register
def normalize(operation: Normalize, *, unit: float = 1.0) -> Step:
    """Normalize values in [0, unit]."""
    return transform(A.Normalize(operation.mean, operation.std, max_pixel_value=unit))


@prepare.register
def _grayscale(_: Grayscale) -> Step:
    return transform(A.ToGray())


@prepare.register
def _jitter(_: ColorJitter) -> Step:
    return transform(A.ColorJitter(), *FACTORS, "order")
