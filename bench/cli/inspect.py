"""``gpu-aug inspect``."""

from typing import Annotated

import typer

from bench.cli.options import AllowPipe, Data, ExecutionOptions, Json, SourceOptions, Workers

_Parts = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="--verify: what was found, part by part, to go on from; all of --task I/N and --merge share it.",
    ),
]


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
    execution: ExecutionOptions,
    parts: _Parts = None,
) -> None:
    """Say what is in DATA: fields, sizes, shapes, classes, and what is broken (exit code 1)."""
    from rich.console import Console

    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.cli.inspect_tables import print_inspection, print_part, to_dict
    from bench.output.arguments import check_writable
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
    executor = executor_of(execution, workers)
    is_apart = execution.on != "local" or execution.task is not None
    if (is_apart or execution.merge or parts) and not verify:
        raise BenchError(
            "--on, --task, --merge and --parts are for --verify: without it a few thousand samples are looked at here"
        )
    asked = source.asked()
    remains = (
        "nothing was kept; give --verify --parts FOLDER to keep what is found and go on from there"
    )
    if parts:
        remains = f"the parts in {parts} remain; run the same command again to go on"
    dataset = open_source(data, allow_pipe=allow_pipe, **asked)  # whose warnings are seen
    with told_when_interrupted(remains), hushed(), samples_bar(console) as bar:
        found = inspection.inspect(
            # Elsewhere it is opened anew, so that a machine that does not see it says so.
            data if is_apart else dataset,
            verify=CHECKS if verify else None,
            num_workers=workers,
            executor=executor if is_apart else None,
            parts=parts,
            merge=execution.merge,
            on_progress=bar,
            **(asked if is_apart else {}),
        )
    if execution.task is not None:  # the merged result tells of bad samples
        print_part(found, execution.task, console)
        return
    print_inspection(data, found, console)
    print_left_out(data, found.dataset, console)
    if json:
        write_json(json, to_dict(data, found))
    if found.num_bad:
        raise typer.Exit(1)
