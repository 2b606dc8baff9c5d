"""``gpu-aug bench remote``."""

from typing import Annotated

import typer

from bench.cli.options import Data, Json


def remote(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per row, in all.")] = 6.0,
    rounds: Annotated[int, typer.Option(help="Stretches that the time is cut into.")] = 3,
    json: Json = None,
) -> None:
    """Measure what batches cost that workers make on other nodes of a Ray cluster."""
    from bench.micro.remote import remote_and_show

    remote_and_show(data, seconds=seconds, rounds=rounds, json_path=json)
