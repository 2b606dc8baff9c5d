"""Words, lines and tables that several commands print."""

from collections.abc import Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from readers import Dataset
from readers.formats.stream import TarStream
from readers.plural import counted
from readers.prepare.source import files_left_out

TABLE_WIDTH = 96
"""Columns that a whole table of a comparison takes."""

_MOST_OTHERS = 3


def printable(name: str) -> str:
    """A name as text, also where it is no valid UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def wide_console(width: int = TABLE_WIDTH) -> Console:
    """A console that, where it is no terminal but a file or a pipe, is wide enough for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def plain_table(*, show_header: bool = True) -> Table:
    """A table with a line under its header and no others."""
    return Table(box=SIMPLE_HEAD, show_header=show_header, padding=(0, 1, 0, 0))


def result_table(title: str, caption: str, first: str, *numbers: str) -> Table:
    """A table of results: a column of names, and columns of numbers."""
    table = Table(
        title=title,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def fact_table() -> Table:
    """A table of subjects and facts."""
    table = plain_table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def print_plain(console: Console, text: str, style: str = "") -> None:
    """Print a line as it is: not wrapped, not highlighted, no markup."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_sentence(console: Console, text: str) -> None:
    """Print a text without markup: on a terminal wrapped at words, else as one line."""
    console.print(Text(text), soft_wrap=not console.is_terminal)


def print_written(console: Console, path: Path) -> None:
    """Say where something was written to."""
    console.print(f"written: {path}", soft_wrap=True)


def print_sizes(before_bytes: int, after_bytes: int, console: Console) -> None:
    """Print how large the files were, and are now."""
    growth = (after_bytes - before_bytes) / max(before_bytes, 1)
    sizes = f"size: {decimal(before_bytes)} before, {decimal(after_bytes)} after ({growth:+.2%})"
    console.print(sizes, highlight=False)


def print_left_out(source: str, dataset: Dataset | TarStream, console: Console) -> None:
    """Say which images lie in a folder of videos, or videos in one of images: they are no samples."""
    others: Sequence[str] = files_left_out(source, dataset)
    if others:
        some = ", ".join(map(printable, others[:_MOST_OTHERS]))
        more = ", ..." if len(others) > _MOST_OTHERS else ""
        text = f"left out: {counted(len(others), 'file')} of another kind ({some}{more})"
        print_plain(console, text, "yellow")
