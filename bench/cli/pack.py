"""``gpu-aug pack``."""

from typing import Annotated, Any, cast

import typer

from bench.cli.options import AllowPipe, Data, ExecutionOptions, Options, Split, Workers

_REMAINS = "the shards that are done remain; run the same command again to go on"

_Destination = Annotated[
    str,
    typer.Argument(
        metavar="DST",
        help="The folder of the shards, or a URL (s3://bucket/train); may hold a part of them.",
    ),
]
_Shuffle = Annotated[
    int | None,
    typer.Option(metavar="SEED", help="Mix samples and classes; in order when left out."),
]
_SourceFormat = Annotated[
    str | None, typer.Option(help="Format of DATA; stream reads tars of any server front to back.")
]


def pack(
    source: Data,
    destination: _Destination,
    format: Annotated[str, typer.Option(help="tar (WebDataset) or parquet.")] = "tar",
    shard_size: Annotated[str, typer.Option(help="Largest size of a shard.")] = "256MB",
    shuffle: _Shuffle = None,
    allow_pipe: AllowPipe = False,
    source_format: _SourceFormat = None,
    split: Split = None,
    option: Options = None,
    workers: Workers = None,
    *,
    execution: ExecutionOptions,
) -> None:
    """Pack DATA into shards with their indexes and checkpoints; a second run goes on with the first."""
    from rich.console import Console

    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.cli.pack_tables import print_packing
    from bench.output.arguments import source_options
    from bench.output.progress import samples_bar
    from dali_pipes.jpeg.finder import FINDER
    from readers.prepare import packing

    console = Console()
    executor = executor_of(execution, workers)
    is_apart = execution.on != "local" or execution.task is not None
    with told_when_interrupted(_REMAINS), samples_bar(console) as bar:
        packed = packing.pack(
            source,
            destination,
            format=cast("Any", format),  # which is judged there
            shard_size=shard_size,
            shuffle=shuffle,
            finder=FINDER,
            allow_pipe=allow_pipe,
            source_format=source_format,
            num_workers=workers,
            executor=executor if is_apart else None,
            merge=execution.merge,
            on_progress=bar,
            **source_options(None, split, option or []),
        )
    print_packing(source, destination, packed, execution.task, console)
