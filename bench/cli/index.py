"""``gpu-aug index``."""

from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import Data, ExecutionOptions, Processes, SourceOptions

if TYPE_CHECKING:
    from rich.console import Console

    from readers.prepare import Indexing


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
            help="Put indexes of shards in object stores beside them, for all machines.",
        ),
    ] = False,
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints",
            help="Also read every JPEG once, and keep where in it decoding can begin: crops are then decoded faster.",
        ),
    ] = False,
) -> None:
    """Build the indexes that DATA needs to be read at random; a second run goes on with the first.

    Videos are looked through as well. Bad ones are named, and are no failure: an index says which they are.
    (gpu-aug inspect has exit code 1 for them.)
    """
    from rich.console import Console

    from bench.cli.execution import executor_of, told_when_interrupted
    from bench.output.progress import bytes_bar, samples_bar
    from dali_pipes.jpeg.finder import FINDER
    from readers.prepare import indexing

    console = Console()
    executor = executor_of(execution, workers)
    remains = "the indexes that are done remain; run the same command again to go on"
    with (
        told_when_interrupted(remains),
        bytes_bar(console) as shards,
        samples_bar(console) as videos,
        samples_bar(console) as jpegs,
    ):

        def on_videos(done: int, total: int) -> None:
            shards.close()  # since a terminal shows one bar at a time
            videos(done, total)

        def on_checkpoints(done: int, total: int) -> None:
            shards.close()
            jpegs(done, total)

        found = indexing.index(
            data,
            num_workers=workers,
            executor=executor,
            publish=publish,
            merge=execution.merge,
            finder=FINDER if checkpoints else None,
            on_shards=shards,
            on_videos=on_videos,
            on_checkpoints=on_checkpoints,
            **source.asked(),
        )
    _print(data, found, execution.task, console)


def _print(data: str, found: "Indexing", task: str | None, console: "Console") -> None:
    from bench.cli.index_tables import print_checkpoints, print_shards, print_videos
    from bench.output.text import print_left_out, print_plain, printable
    from readers.prepare.source import title_of

    if found.shards:
        print_shards(found, console)
    if task is not None:
        total = len(found.lacking) + len(found.shards)
        text = f"task {task}: {len(found.lacking):,} of {total:,} indexes are not there yet"
        text += "; --merge tells when all are"
        print_plain(console, text)
        if found.checkpoints is not None:
            print_checkpoints(found.checkpoints, console)
        return
    if not found.shards and found.videos is None and found.checkpoints is None:
        title = title_of(found.dataset)
        print_plain(console, f"{printable(data)} needs no index (format: {title})")
    if found.videos is not None and found.files is not None:
        print_videos(found.files, found.videos, console)
    if found.checkpoints is not None:
        print_checkpoints(found.checkpoints, console)
    print_left_out(data, found.dataset, console)
