"""Define the commands that prepare DATA: pack, inspect and index."""

from typing import Annotated, Any, cast

import typer

from bench.cli.options import (
    AllowPipe,
    Data,
    ExecutionOptions,
    Json,
    Options,
    Processes,
    SourceOptions,
    Split,
    Workers,
)
from bench.output.errors import BenchError


def pack(
    source: Data,
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DST",
            help="The folder of the shards, or a URL (s3://bucket/train); it may already contain a part of them.",
        ),
    ],
    format: Annotated[str, typer.Option(help="tar (WebDataset) or parquet.")] = "tar",
    shard_size: Annotated[str, typer.Option(help="Largest size of a shard.")] = "256MB",
    shuffle: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="Shuffle the samples with this seed; default: keep their order."
        ),
    ] = None,
    allow_pipe: AllowPipe = False,
    source_format: Annotated[
        str | None,
        typer.Option(
            help="Format of DATA; stream reads tar files of any server from front to back."
        ),
    ] = None,
    split: Split = None,
    option: Options = None,
    workers: Workers = None,
    *,
    execution: ExecutionOptions,
) -> None:
    """Pack DATA into shards with indexes and seek points; a second run continues the first."""
    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.cli.prepare_tables import print_packing
    from bench.output.progress import samples_bar
    from dali_pipes.jpeg.seek_points import FINDER
    from readers.prepare import packing

    executor = executor_of(execution, workers)
    remains = "the shards that are done remain; run the same command again to go on"
    with told_when_interrupted(remains), samples_bar() as bar:
        packed = packing.pack(
            source,
            destination,
            format=cast("Any", format),  # checked by the callee
            shard_size=shard_size,
            shuffle=shuffle,
            finder=FINDER,
            allow_pipe=allow_pipe,
            source_format=source_format,
            num_workers=workers,
            executor=executor,
            merge=execution.merge,
            on_progress=bar,
            **SourceOptions(None, split, option).asked(),
        )
    print_packing(source, destination, packed, execution.task)


def inspect(
    data: Data,
    *,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every sample and decode every image.")
    ] = False,
    source: SourceOptions,
    allow_pipe: AllowPipe = False,
    workers: Workers = None,
    json: Json = None,
    execution: ExecutionOptions,
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="--verify: folder of partial results, to continue from; all --task I/N and --merge must share it.",
        ),
    ] = None,
) -> None:
    """Show what DATA contains: fields, sizes, shapes, classes, and bad samples (exit code 1)."""
    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.cli.inspect_tables import print_inspection, print_part, to_dict
    from bench.output.arguments import check_writable
    from bench.output.progress import samples_bar
    from bench.output.quiet import hushed
    from bench.output.results import write_json
    from dali_pipes.decode.check import CHECKS
    from readers.prepare.inspection import inspect_dataset as inspection
    from readers.prepare.source import open_source

    check_writable(json)
    executor = executor_of(execution, workers)
    if (executor or execution.merge or parts) and not verify:
        raise BenchError(
            "--on, --task, --merge and --parts are for --verify: without it a few thousand samples are looked at here"
        )
    asked = source.asked()
    remains = (
        f"the parts in {parts} remain; run the same command again to go on"
        if parts
        else "nothing was kept; give --verify --parts FOLDER to keep what is found and go on from there"
    )
    dataset = open_source(data, allow_pipe=allow_pipe, **asked)  # its warnings are printed
    with told_when_interrupted(remains), hushed(), samples_bar() as bar:
        found = inspection.inspect(
            # On other machines it is opened again, so that a machine that cannot reach it raises.
            data if executor else dataset,
            verify=CHECKS if verify else None,
            num_workers=workers,
            executor=executor,
            parts=parts,
            merge=execution.merge,
            on_progress=bar,
            **(asked if executor else {}),
        )
    if execution.task is not None:  # the merged result reports bad samples
        print_part(found, execution.task)
        return
    print_inspection(data, found)
    if json:
        write_json(json, to_dict(data, found))
    if found.num_bad:
        raise typer.Exit(1)


def index(
    data: Data,
    *,
    source: SourceOptions,
    workers: Processes = None,
    execution: ExecutionOptions,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Store indexes of shards in object stores next to the shards, for all machines.",
        ),
    ] = False,
    seek_points: Annotated[
        bool,
        typer.Option(
            "--seek-points",
            help="Also read every JPEG once and store its seek points: crops are then decoded faster.",
        ),
    ] = False,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", hidden=True)] = False,
) -> None:
    """Build the indexes for random access to DATA; a second run continues the first.

    Videos are checked, too. Bad videos are listed but do not fail the command: the index records them. (gpu-aug inspect
    has exit code 1 for them.)
    """
    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.cli.prepare_tables import print_indexing
    from bench.output.progress import bytes_bar, samples_bar
    from dali_pipes.jpeg.seek_points import FINDER
    from readers.prepare import indexing

    if checkpoints:
        raise BenchError("--checkpoints was renamed: give --seek-points")
    executor = executor_of(execution, workers)
    remains = "the indexes that are done remain; run the same command again to go on"
    with (
        told_when_interrupted(remains),
        bytes_bar() as shards,
        samples_bar(after=shards) as videos,
        samples_bar(after=shards) as jpegs,
    ):
        found = indexing.index(
            data,
            num_workers=workers,
            executor=executor,
            publish=publish,
            merge=execution.merge,
            finder=FINDER if seek_points else None,
            on_shards=shards,
            on_videos=videos,
            on_seek_points=jpegs,
            **source.asked(),
        )
    print_indexing(data, found, execution.task)
