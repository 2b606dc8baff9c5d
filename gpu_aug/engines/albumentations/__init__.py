"""The Albumentations engine. Importing it registers its function for every family of operations."""

from gpu_aug.engines.albumentations import (
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
from gpu_aug.engines.albumentations.engine import AlbumentationsEngine

__all__ = [
    "AlbumentationsEngine",
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
