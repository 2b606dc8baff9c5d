"""Operations in torch and Kornia, and in NumPy, OpenCV and Albumentations. Importing this registers all functions."""

from gpu_aug.engines.backends import (
    color,
    erase,
    filters,
    foreign,
    geometry,
    mix,
    noise,
    policy,
    tables,
    warps,
)

__all__ = [
    "color",
    "erase",
    "filters",
    "foreign",
    "geometry",
    "mix",
    "noise",
    "policy",
    "tables",
    "warps",
]
