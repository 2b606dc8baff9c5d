"""Words, lines and tables that several commands print."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
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


def name_some(names: Sequence[str], num_others: int) -> str:
    """Return some names and how many others there are, such as "a, b and 3 others"."""
    others = f" and {counted(num_others, 'other')}" if num_others > 0 else ""
    return ", ".join(map(printable, names)) + others


def wide_console(width: int = TABLE_WIDTH) -> Console:
    """A console that, where it is no terminal but a file or a pipe, is wide enough for the table."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def plain_table(**more: Any) -> Table:
    """Return a table with a line under its header and no others; `more` are arguments of rich's Table."""
    return Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **more)


def result_table(title: str, caption: str, first: str, *numbers: str) -> Table:
    """A table of results: a column of names, and columns of numbers."""
    table = plain_table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_plain(console: Console, text: str, style: str = "") -> None:
    """Print a line without wrapping, highlighting or markup."""
    console.print(Text(text, style=style), soft_wrap=True)


def print_line(text: str, style: str = "") -> None:
    """Print a line on standard output; see `print_plain`."""
    print_plain(Console(), text, style)


def print_sentence(text: str) -> None:
    """Print a text without markup: on a terminal wrapped at words, else as one line."""
    console = Console()
    console.print(Text(text), soft_wrap=not console.is_terminal)


def print_written(console: Console, path: Path) -> None:
    """Say where something was written to."""
    console.print(f"written: {path}", soft_wrap=True)


def print_left_out(source: str, dataset: Dataset | TarStream) -> None:
    """Say which images lie in a folder of videos, or videos in one of images: they are no samples."""
    others: Sequence[str] = files_left_out(source, dataset)
    if others:
        some = name_some(others[:_MOST_OTHERS], len(others) - _MOST_OTHERS)
        text = f"left out: {counted(len(others), 'file')} of another kind ({some})"
        print_line(text, "yellow")
