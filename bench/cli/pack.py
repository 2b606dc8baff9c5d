"""``gpu-aug pack``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.cli.options import AllowPipe, Data, Options, Split, Workers

if TYPE_CHECKING:
    from rich.console import Console

    from readers.prepare import Packing

_NUM_BAD_SHOWN = 5


def pack(
    source: Data,
    destination: Annotated[
        Path,
        typer.Argument(metavar="DST", help="The folder of the shards; may hold a part of them."),
    ],
    format: Annotated[str, typer.Option(help="tar (WebDataset) or parquet.")] = "tar",
    tile: Annotated[
        bool, typer.Option("--tile", help="Put restart markers into every JPEG; see gpu-aug tile.")
    ] = False,
    shard_size: Annotated[str, typer.Option(help="Largest size of a shard.")] = "256MB",
    shuffle: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Mix samples and classes; in order when left out."),
    ] = None,
    allow_pipe: AllowPipe = False,
    source_format: Annotated[
        str | None,
        typer.Option(help="Format of DATA; stream reads tars of any server front to back."),
    ] = None,
    split: Split = None,
    option: Options = None,
    workers: Workers = None,
) -> None:
    """Pack DATA into WebDataset tar shards with their indexes, or Parquet; a second run goes on with the first."""
    from typing import Any, cast

    from rich.console import Console

    from bench.cli.arguments import source_options
    from bench.output.errors import BenchError
    from bench.output.progress import samples_bar
    from bench.output.text import printable
    from dali_pipes.jpeg.tiling.add_restarts import tile_jpeg
    from readers.prepare import packing

    console = Console()
    with samples_bar(console) as bar:
        packed = packing.pack(
            source,
            destination,
            format=cast("Any", format),  # which is judged there
            shard_size=shard_size,
            shuffle=shuffle,
            tile_jpeg=tile_jpeg if tile else None,
            allow_pipe=allow_pipe,
            source_format=source_format,
            num_workers=workers,
            on_progress=bar,
            **source_options(None, split, option or []),
        )
    _print(packed, console, tiled=tile)
    if packed.breaks:  # not one sample is missing, but all that came behind it
        raise BenchError(
            f"{source} breaks off in {len(packed.breaks)} places, the first at "
            f"{printable(packed.breaks[0]['key'])}: what could be read is packed; mend the source and pack it "
            "into a new folder to have the rest"
        )


def _print(packed: "Packing", console: "Console", *, tiled: bool) -> None:
    from bench.output.text import print_jpegs, print_plain, print_sizes, printable
    from readers.plural import counted
    from readers.prepare import pack_progress

    samples, shards = counted(packed.num_samples, "sample"), counted(len(packed.shards), "shard")
    console.print(f"{samples} in {shards}", highlight=False)
    if tiled:
        print_jpegs(packed.jpegs, console)
    bad = packed.bad_samples
    for sample in bad[:_NUM_BAD_SHOWN]:
        text = f"bad sample {printable(sample['key'])} ({sample['stage']}): {sample['reason']}"
        print_plain(console, text, "yellow")
    if len(bad) > _NUM_BAD_SHOWN:
        text = f"and {len(bad) - _NUM_BAD_SHOWN} more, all named in {pack_progress.NAME}"
        print_plain(console, text, "yellow")
    before, after = (sum(one[name] for one in packed.shards) for name in ("source_bytes", "bytes"))
    print_sizes(before, after, console)
