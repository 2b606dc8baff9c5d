"""``gpu-aug tile``."""

from typing import Annotated

import typer

from bench.cli.options import ExecutionOptions, Workers

_NUM_LOST_SHOWN = 5
_REMAINS = "the copies that are done remain; run the same command again to go on"


def tile(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SRC",
            help="A folder, or .tar shards ('train-{000..099}.tar'); s3://..., gs://... too.",
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="The folder of the copy, or s3://...; may hold a part of it."
        ),
    ],
    workers: Workers = None,
    *,
    execution: ExecutionOptions,
) -> None:
    """Copy images with restart markers in every JPEG, so that crops decode faster; pixels stay the same."""
    from rich.console import Console
    from rich.filesize import decimal

    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.output.errors import BenchError
    from bench.output.progress import bytes_bar
    from bench.output.text import print_jpegs, print_plain, print_sizes, printable
    from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
    from readers.plural import counted
    from readers.prepare import tiling

    console = Console()
    executor = executor_of(execution, workers)
    is_apart = execution.on != "local" or execution.task is not None
    with told_when_interrupted(_REMAINS), bytes_bar(console) as bar:
        tiled = tiling.tile(
            source,
            destination,
            tile_jpeg,
            num_workers=workers,
            executor=executor if is_apart else None,
            merge=execution.merge,
            on_progress=bar,
        )
    if execution.task is not None:
        done = f"{decimal(tiled.source_bytes)} of files done"
        print_plain(console, f"task {execution.task}: {done}; --merge tells when all are")
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
