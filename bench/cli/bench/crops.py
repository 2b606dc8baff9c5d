"""``gpu-aug bench crops``."""

from typing import Annotated

import typer

from bench.cli.options import Data, Json


def crops(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per way, in all.")] = 5.0,
    rounds: Annotated[int, typer.Option(help="Turns per way that the time is cut into.")] = 5,
    json: Json = None,
) -> None:
    """Decode small crops of 1080p JPEGs: from checkpoints, by region decoding, and whole."""
    from bench.micro.crops import crops_and_show

    crops_and_show(data, seconds=seconds, rounds=rounds, json_path=json)
