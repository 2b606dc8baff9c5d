"""``gpu-aug cache``."""

from typing import Annotated

import typer


def cache(
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|all",
            help="Remove the files of a kind: blocks, indexes, videos, checkpoints, sizes, unpacked, compiled or all.",
        ),
    ] = None,
) -> None:
    """Say what the cache folder holds, what it takes, when it was last used and what its removal costs."""
    from rich.console import Console

    from bench.cli.cache_tables import print_kinds, print_removed
    from dali_pipes import cache as caches

    console = Console()
    if remove is not None:
        print_removed(caches.remove(remove), console)
    else:
        print_kinds(caches.list_cache(), console)
