"""Former address of `bench.baselines.videos`."""

from bench.baselines.videos import load_torchcodec

__all__ = ["load_torchcodec"]
