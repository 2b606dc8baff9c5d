"""``gpu-aug tile``, which was removed."""

import typer

from bench.output.errors import BenchError


def tile(arguments: list[str] = typer.Argument(None, hidden=True)) -> None:
    """Say what to do instead."""
    raise BenchError(
        "gpu-aug tile was removed: train from the originals with gpu-aug index DATA --checkpoints, which lets crops decode "
        "as fast without a copy"
    )
