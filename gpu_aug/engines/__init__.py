"""The engines: the same operations carried out by different libraries."""

from gpu_aug.engines.engine import Engine, compile_engine

__all__ = ["Engine", "compile_engine"]
