"""``gpu-aug tile``, which was removed."""

from bench.output.errors import BenchError


def tile() -> None:
    """Say what to do instead."""
    raise BenchError(
        "gpu-aug tile was removed, since checkpoints of JPEGs make crops about as fast without a copy of the data: train from "
        "the data as they are, after gpu-aug index DATA --checkpoints (tiled copies are still read)"
    )
