"""From the pipelines of other libraries to recipes, and back."""

from gpu_aug.convert.albumentations import from_albumentations
from gpu_aug.convert.report import Line, convert
from gpu_aug.convert.torchvision import from_torchvision

__all__ = ["Line", "convert", "from_albumentations", "from_torchvision"]
