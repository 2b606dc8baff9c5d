"""Implementations of the operations for the engines "kornia" and "albumentations".

Importing this package registers all of them.
"""

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
