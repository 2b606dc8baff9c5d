"""The Kornia engine. Importing it registers its function for every family of operations."""

from gpu_aug.engines.kornia import (
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
from gpu_aug.engines.kornia.engine import KorniaEngine

__all__ = [
    "KorniaEngine",
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
