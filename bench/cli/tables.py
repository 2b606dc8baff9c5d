"""Tables and lists that several commands print."""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.output.text import fact_table, print_plain
from readers.plural import counted

_MOST_KINDS = 3


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str | None = None,
    caption: str | None = None,
) -> None:
    """Print rows under their headings; texts are no markup.

    Args:
        console: Where to.
        columns: Headings. One that begins with ">" marks a column of numbers, aligned to the right.
        rows: A text for each column.
        title: Stands above the table.
        caption: Stands below it.
    """
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, caption=caption)
    table.title_justify = table.caption_justify = "left"
    for heading in columns:
        is_number = heading.startswith(">")
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console.print(table)


def print_facts(console: Console, facts: Iterable[tuple[str, str | Text]]) -> None:
    """Print subjects, and what is to be said of each."""
    console.print(facts_of(facts))


def facts_of(facts: Iterable[tuple[str, str | Text]]) -> Table:
    """Return subjects and what is to be said of each as a table."""
    table = fact_table()
    for subject, text in facts:
        table.add_row(subject, text if isinstance(text, Text) else Text(text))
    return table


def print_first(console: Console, texts: Sequence[str], most: int, where: str = "") -> None:
    """Print the first of some warnings, how many more there are, and where these are."""
    for text in texts[:most]:
        print_plain(console, text, "yellow")
    if len(texts) > most:
        print_plain(console, f"and {len(texts) - most} more{where}", "yellow")


def listed(counts: Counter[str]) -> str:
    """Return the most frequent kinds with their counts, or "none" if there are none."""
    named = [f"{name} ({count:,})" for name, count in counts.most_common(_MOST_KINDS)]
    if len(counts) == 1:
        return f"all {named[0]}"
    if len(counts) > len(named):
        named.append(f"and {counted(len(counts) - len(named), 'other')}")
    return ", ".join(named) or "none"
