"""Bars that show how far a long work is."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


def bytes_bar(console: Console) -> Progress:
    """A bar that shows bytes, their rate and the time left; nothing where there is no terminal."""
    return Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def samples_bar(console: Console) -> Progress:
    """A bar that shows numbers of samples and the time left; nothing where there is no terminal."""
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
