"""``gpu-aug bench decode``."""

from typing import Annotated

import typer

from bench.cli.options import Data, Json


def decode(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per way, in all.")] = 5.0,
    rounds: Annotated[int, typer.Option(help="Turns per way that the time is cut into.")] = 5,
    json: Json = None,
) -> None:
    """Decode images as they are, each kind of file by itself: whole, smaller, and crops."""
    from bench.micro.decoders import decoders_and_show

    decoders_and_show(data, seconds=seconds, rounds=rounds, json_path=json)
