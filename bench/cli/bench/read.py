"""``gpu-aug bench read``."""

from typing import Annotated

import typer

from bench.cli.options import Data, Json, Threads


def read(
    data: Data,
    seconds: Annotated[float, typer.Option(help="Measured time per reader, warm, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per reader that the time is cut into.")] = 5,
    cold_rounds: Annotated[int, typer.Option(help="Turns with an empty page cache.")] = 3,
    batch_size: Annotated[int, typer.Option(help="Samples per batch.")] = 256,
    size: Annotated[
        str, typer.Option(help="How much of DATA to read; it is repeated where it has less.")
    ] = "512MiB",
    threads: Threads = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this format (files, tar, ...); repeatable.")
    ] = None,
    json: Json = None,
) -> None:
    """Read the samples of DATA in shuffled order from every format, beside the formats' own libraries."""
    from bench.reading.read import ReadSettings, read_and_show
    from readers.prepare.packing import size_from

    settings = ReadSettings(
        seconds=seconds,
        rounds=rounds,
        cold_rounds=cold_rounds,
        batch_size=batch_size,
        num_threads=threads,
        size_bytes=size_from(size),
        only=tuple(only or ()),
    )
    read_and_show(data, settings, json_path=json)
