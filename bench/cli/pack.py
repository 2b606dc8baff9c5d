"""``gpu-aug pack``."""

from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import AllowPipe, Data, ExecutionOptions, Options, Split, Workers

if TYPE_CHECKING:
    from rich.console import Console

    from readers.prepare import Packing

_NUM_BAD_SHOWN = 5
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
    from typing import Any, cast

    from rich.console import Console

    from bench.cli.execution import executor_of, told_when_interrupted
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
    if execution.task is not None:
        _print_task(packed, destination, execution.task, console)
        return
    _print(packed, console)
    _require_whole(source, packed)


def _require_whole(source: str, packed: "Packing") -> None:
    from bench.output.errors import BenchError
    from bench.output.text import printable

    if breaks := packed.breaks:  # not one sample is missing, but all that came behind it
        raise BenchError(
            f"{source} breaks off in {len(breaks)} places, the first at "
            f"{printable(breaks[0]['key'])}: what could be read is packed; mend the source and pack it "
            "into a new folder to have the rest"
        )


def _print_task(packed: "Packing", destination: str, task: str, console: "Console") -> None:
    from bench.output.text import print_plain
    from readers.plural import counted
    from readers.prepare.shards.merging import num_missing

    missing = num_missing(destination)
    samples, shards = counted(packed.num_samples, "sample"), counted(packed.num_shards, "shard")
    then = f"{missing} remain for other tasks" if missing else "none remain: give --merge"
    print_plain(console, f"task {task} is done: {samples} in {shards}; {then}")


def _print(packed: "Packing", console: "Console") -> None:
    from bench.output.text import print_plain, print_sizes, printable
    from readers.plural import counted
    from readers.prepare.packed import MANIFEST

    samples, shards = counted(packed.num_samples, "sample"), counted(packed.num_shards, "shard")
    console.print(f"{samples} in {shards}", highlight=False)
    bad = packed.bad_samples
    for sample in bad[:_NUM_BAD_SHOWN]:
        text = f"bad sample {printable(sample['key'])} ({sample['stage']}): {sample['reason']}"
        print_plain(console, text, "yellow")
    if len(bad) > _NUM_BAD_SHOWN:
        text = f"and {len(bad) - _NUM_BAD_SHOWN} more, all named in {MANIFEST}"
        print_plain(console, text, "yellow")
    print_sizes(packed.totals.source_bytes, packed.totals.bytes, console)
