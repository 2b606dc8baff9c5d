"""Recipes as callables, for a Dataset and DataLoader of torch."""

from gpu_aug.transform.several import ScheduleTransform, ViewsTransform
from gpu_aug.transform.transform import Transform

__all__ = ["ScheduleTransform", "Transform", "ViewsTransform"]
