"""``gpu-aug bench make-videos``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import Seed


def make_videos(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Gets one folder per class.")],
    size: Annotated[str, typer.Option(metavar="WIDTHxHEIGHT", help="Size in pixels.")] = "340x256",
    count: Annotated[int, typer.Option(help="Number of videos.")] = 16,
    seconds: Annotated[float, typer.Option(help="Length of each video.")] = 10.0,
    seed: Seed = 0,
) -> None:
    """Make videos: a camera that moves over real photographs, H.264 with x264's default settings."""
    from bench.compare.make_videos import make_and_show

    make_and_show(folder, size, count=count, seconds=seconds, seed=seed)
