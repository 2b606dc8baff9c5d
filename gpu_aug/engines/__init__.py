"""Engines: libraries and kernels that carry out the operations of a recipe on images."""

from gpu_aug.engines.choose import compile_engine
from gpu_aug.engines.engine import Engine

__all__ = ["Engine", "compile_engine"]
