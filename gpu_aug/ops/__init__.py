"""The operations of a recipe: what each means and how its parameters are drawn."""

from gpu_aug.ops.affine import RandomAffine
from gpu_aug.ops.colour import ColorJitter, Grayscale, Normalize
from gpu_aug.ops.erase import RandomErasing
from gpu_aug.ops.filters import GaussianBlur
from gpu_aug.ops.geometry import (
    CenterCrop,
    HorizontalFlip,
    RandomResizedCrop,
    Resize,
    VerticalFlip,
)
from gpu_aug.ops.operation import Operation

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "GaussianBlur",
    "Grayscale",
    "HorizontalFlip",
    "Normalize",
    "Operation",
    "RandomAffine",
    "RandomErasing",
    "RandomResizedCrop",
    "Resize",
    "VerticalFlip",
]
