"""``gpu-aug bench scale``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli import options
from bench.cli.options import Data, Json


def scale(
    data: Data,
    recipe: options.Recipe = "imagenet_train",
    device: options.Device = "auto",
    decoder: options.Decoder = "auto",
    engine: options.Engine = "auto",
    quick: options.Quick = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the result here, as .svg.")] = None,
    json: Json = None,
) -> None:
    """Measure how cost grows with threads, image size, batch size, dataset length and time."""
    from dataclasses import replace

    from bench.micro.scale import scale_and_show
    from bench.micro.scale_result import QUICK, ScaleSettings

    settings = replace(
        QUICK if quick else ScaleSettings(), device=device, decoder=decoder, engine=engine
    )
    scale_and_show(data, recipe, settings, json_path=json, plot_path=plot)
