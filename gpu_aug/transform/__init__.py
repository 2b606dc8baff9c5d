"""A recipe as a callable, for people who keep their DataLoader."""

from gpu_aug.transform.transform import Transform, make_transform

__all__ = ["Transform", "make_transform"]
