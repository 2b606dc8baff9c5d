"""Print tables and lists that several commands need."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.output.text import plain_table, print_line
from readers.plural import counted

_MOST_KINDS = 3

Row = Sequence[str | Text]
"""Cells of a table. A str is printed as text, not as markup."""


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
