"""``gpu-aug report``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import AllowPipe, SourceOptions, Workers


def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DATA|LOG",
            help="The log of gpu-aug run --log, or data: a folder, a list of files, shards or a URL of them.",
        ),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write, .html.")] = Path(
        "report.html"
    ),
    verify: Annotated[
        bool, typer.Option("--verify", help="Look at every sample and decode every image.")
    ] = False,
    log_only: Annotated[
        bool, typer.Option("--log-only", help="Of a log: leave the data alone that it names.")
    ] = False,
    opened: SourceOptions,
    allow_pipe: AllowPipe = False,
    workers: Workers = None,
) -> None:
    """Write one HTML page about a run or about data, which loads nothing and can be sent to others."""
    from bench.report.write import Asked, write_report

    asked = Asked(verify, log_only, opened.asked(), allow_pipe, workers)
    write_report(source, out, asked)
