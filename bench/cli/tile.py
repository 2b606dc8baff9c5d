"""``gpu-aug tile``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import Workers

_NUM_LOST_SHOWN = 5


def tile(
    source: Annotated[
        str,
        typer.Argument(metavar="SRC", help="A folder, or .tar shards ('train-{000..099}.tar')."),
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="DST", help="The folder of the copy; may hold a part of it.")
    ],
    workers: Workers = None,
) -> None:
    """Copy images with restart markers in every JPEG, so that crops decode faster; pixels stay the same."""
    from rich.console import Console

    from bench.output.errors import BenchError
    from bench.output.progress import bytes_bar
    from bench.output.text import print_jpegs, print_plain, print_sizes, printable
    from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
    from readers.plural import counted
    from readers.prepare import tiling

    console = Console()
    with bytes_bar(console) as bar:
        tiled = tiling.tile(source, destination, tile_jpeg, num_workers=workers, on_progress=bar)
    print_jpegs(tiled.jpegs, console)
    kept = f"; finished before: {tiled.kept}" if tiled.kept else ""
    console.print(f"other files and shards copied: {tiled.copied}{kept}", highlight=False)
    print_sizes(tiled.source_bytes, tiled.bytes, console)
    for text in tiled.lost[:_NUM_LOST_SHOWN]:
        print_plain(console, f"missing: {printable(text)}", "red")
    if tiled.lost:
        raise BenchError(
            f"{counted(len(tiled.lost), 'file')} could not be read, missing in the copy: "
            "make everything readable and run the same command again"
        )
