"""``gpu-aug bench install-peers``."""

from typing import Annotated

import typer


def install_peers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Which; all when left out.")
    ] = None,
) -> None:
    """Install other people's loaders, each into a virtual environment of its own under .peers/."""
    from rich.console import Console

    from bench.baselines.peers import install
    from bench.output.text import print_plain

    console = Console()
    with console.status("starting") as status:
        results = install.install_peers(names or [], status.update)
    for result in results:
        words = f"cannot be installed: {result.reason}" if result.reason else "installed"
        print_plain(console, f"{result.name} {words}", "yellow" if result.reason else "green")
