"""Print text, lines, tables and lists for several commands."""

from collections import Counter
from collections.abc import Iterable, Sequence
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

_MOST_KINDS = 3

Row = Sequence[str | Text]
"""Cells of a table. A str is printed as text, not as markup."""

TABLE_WIDTH = 96
"""Columns that the complete table of a comparison needs."""

_MOST_OTHERS = 3


def printable(name: str) -> str:
    """Return a name as text, even if it is not valid UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def name_some(names: Sequence[str], num_others: int) -> str:
    """Return a text with some names and the count of others, such as "a, b and 3 others"."""
    others = f" and {counted(num_others, 'other')}" if num_others > 0 else ""
    return ", ".join(map(printable, names)) + others


def three_digits(value: float) -> str:
    """Return a number with at least three digits, such as 1,150, 85.3 or 0.27."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def wide_console(width: int = TABLE_WIDTH) -> Console:
    """Return a console that is wide enough for the table if the output is a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def plain_table(**more: Any) -> Table:
    """Return a table whose only line is below its header; `more` are arguments of rich's Table."""
    return Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **more)


def result_table(title: str, caption: str, first: str, *numbers: str) -> Table:
    """Return a table of results: a column of names, and columns of numbers."""
    table = plain_table(title=title, caption=caption, title_justify="left", caption_justify="left")
    table.add_column(first, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def print_line(text: str, style: str = "", console: Console | None = None) -> None:
    """Print a line without wrapping, highlighting or markup; without a console, on standard output."""
    (console or Console()).print(Text(text, style=style), soft_wrap=True)


def print_sentence(text: str) -> None:
    """Print a text without markup: on a terminal wrapped at words, otherwise as one line."""
    console = Console()
    console.print(Text(text), soft_wrap=not console.is_terminal)


def print_written(console: Console, path: Path) -> None:
    """Print where a result was written."""
    console.print(f"written: {path}", soft_wrap=True)


def print_left_out(source: str, dataset: Dataset | TarStream) -> None:
    """Print which files are not samples: images in a folder of videos, or videos in a folder of images."""
    others: Sequence[str] = files_left_out(source, dataset)
    if others:
        some = name_some(others[:_MOST_OTHERS], len(others) - _MOST_OTHERS)
        text = f"left out: {counted(len(others), 'file')} of another kind ({some})"
        print_line(text, "yellow")


def print_table(
    columns: Sequence[str],
    rows: Iterable[Row],
    *,
    title: str | None = None,
    caption: str | None = None,
    console: Console | None = None,
) -> None:
    """Print rows under their headings.

    Args:
        columns: Headings. A heading that begins with ">" marks a column of numbers, which is right-aligned.
        rows: One cell per column. An empty row draws a line.
        title: Printed above the table.
        caption: Printed below the table.
        console: The console; None is standard output.
    """
    table = plain_table(title=title, caption=caption, title_justify="left", caption_justify="left")
    for heading in columns:
        is_number = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    _add_rows(table, rows)
    (console or Console()).print(table)


def fact_table(facts: Iterable[Row]) -> Table:
    """Return a table of subjects and facts about them."""
    table = plain_table(show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    _add_rows(table, facts)
    return table


def _add_rows(table: Table, rows: Iterable[Row]) -> None:
    for row in rows:
        if not row:
            table.add_section()
            continue
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))


def print_facts(facts: Iterable[Row]) -> None:
    """Print subjects and facts about them."""
    Console().print(fact_table(facts))


def print_first(texts: Sequence[str], most: int, where: str = "") -> None:
    """Print the first `most` warnings, the count of further warnings, and where to find these."""
    for text in texts[:most]:
        print_line(text, "yellow")
    if len(texts) > most:
        print_line(f"and {len(texts) - most} more{where}", "yellow")


def listed(counts: Counter[str]) -> str:
    """Return a text with the most frequent kinds and their counts, or "none" if the counter is empty."""
    named = [f"{name} ({count:,})" for name, count in counts.most_common(_MOST_KINDS)]
    if len(counts) == 1:
        return f"all {named[0]}"
    if len(counts) > len(named):
        named.append(f"and {counted(len(counts) - len(named), 'other')}")
    return ", ".join(named) or "none"
