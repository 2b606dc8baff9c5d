"""The engines: the same operations carried out by different libraries."""

from gpu_aug.engines.choose import compile_engine
from gpu_aug.engines.engine import Engine

__all__ = ["Engine", "compile_engine"]
