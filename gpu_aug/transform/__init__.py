"""A recipe as a callable, for people who keep their DataLoader."""

from gpu_aug.transform.several import (
    ScheduleTransform,
    ViewsTransform,
    make_schedule_transform,
    make_views_transform,
)
from gpu_aug.transform.transform import Transform, make_transform

__all__ = [
    "ScheduleTransform",
    "Transform",
    "ViewsTransform",
    "make_schedule_transform",
    "make_transform",
    "make_views_transform",
]
