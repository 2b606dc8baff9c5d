"""``gpu-aug inspect``."""

from typing import Annotated

import typer

from bench.cli.options import AllowPipe, Data, Json, SourceOptions, Workers


def inspect(
    data: Data,
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Look at every sample and decode every image.")
    ] = False,
    source: SourceOptions,
    allow_pipe: AllowPipe = False,
    workers: Workers = None,
    json: Json = None,
) -> None:
    """Say what is in DATA: fields, sizes, shapes, classes, and what is broken (exit code 1)."""
    from rich.console import Console

    from bench.cli.arguments import check_writable
    from bench.cli.inspect_tables import print_inspection, to_dict
    from bench.output.errors import BenchError
    from bench.output.progress import samples_bar
    from bench.output.quiet import hushed
    from bench.output.results import write_json
    from bench.output.text import print_left_out
    from dali_pipes.decode.check import CHECKS
    from readers.prepare import inspection
    from readers.prepare.source import open_source

    check_writable(json)
    console = Console()
    dataset = open_source(data, allow_pipe=allow_pipe, **source.asked())  # whose warnings are seen
    with hushed(), samples_bar(console) as bar:
        found = inspection.inspect(
            dataset,
            verify=CHECKS if verify else None,
            num_workers=workers,
            on_progress=bar,
        )
    print_inspection(data, found, console)
    print_left_out(data, found.dataset, console)
    if json:
        try:
            write_json(json, to_dict(data, found))
        except OSError as error:
            raise BenchError(f"{json} cannot be written ({error.strerror})") from None
    if found.num_bad:
        raise typer.Exit(1)
