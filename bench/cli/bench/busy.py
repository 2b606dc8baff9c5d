"""``gpu-aug bench busy``."""

from typing import Annotated

import typer

from bench.cli import options
from bench.cli.options import Data, Json


def busy(
    data: Data,
    recipe: options.Recipe = "imagenet_train",
    seconds: Annotated[float, typer.Option(help="Measured time per kind, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per kind that the time is cut into.")] = 5,
    batch_size: Annotated[int, typer.Option(help="Images per batch.")] = 64,
    decoder: options.Decoder = "auto",
    engine: options.Engine = "auto",
    threads: Annotated[int, typer.Option(help="Decoding and augmenting threads.")] = 1,
    helper_process: Annotated[
        bool, typer.Option(help="Let the loader work in a process of its own.")
    ] = False,
    json: Json = None,
) -> None:
    """Measure how much of its speed the loader keeps while the trainer's Python is busy."""
    from bench.compare.compare import Settings
    from bench.micro.busy import busy_and_show

    settings = Settings(seconds=seconds, rounds=rounds, batch_size=batch_size, num_threads=threads)
    how = {"decoder": decoder, "engine": engine, "helper_process": helper_process}
    busy_and_show(data, recipe, settings, options=how, json_path=json)
