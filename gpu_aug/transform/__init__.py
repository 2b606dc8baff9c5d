"""A recipe as a callable, for people who keep their DataLoader."""

from gpu_aug.transform.several import ScheduleTransform, ViewsTransform
from gpu_aug.transform.transform import Transform

__all__ = ["ScheduleTransform", "Transform", "ViewsTransform"]
