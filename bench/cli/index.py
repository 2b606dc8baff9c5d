"""``gpu-aug index``."""

from typing import Annotated

import typer

from bench.cli.options import Data, ExecutionOptions, Processes, SourceOptions


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
    from bench.cli.index_tables import print_indexing
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
    print_indexing(data, found, execution.task, console)
