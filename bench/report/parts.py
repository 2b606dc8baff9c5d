"""What the sections of a page hold: texts, tables, charts and pictures. `templates/page.html.j2` shows them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from bench.report.numbers import NONE, plain


class Bar(float):
    """A share between 0 and 1 that is drawn as a bar."""


class Code(str):
    """A name that comes from the data."""

    __slots__ = ()


class Number(str):
    """A number as people read it, with the number itself for programs."""

    value: float

    def __new__(cls, value: float, words: str) -> Self:
        """Return the words of a number."""
        made = super().__new__(cls, words)
        made.value = value
        return made


@dataclass(frozen=True)
class Card:
    """A picture with what is written below it.

    Attributes:
        source: A data URI.
        size: Height and width in pixels.
        alt: What is read aloud in its place.
        name: Of the sample.
        words: More about it.
        fault: Why there is no picture; "" where there is one.
    """

    source: str
    size: tuple[int, int]
    alt: str
    name: str
    words: str
    fault: str = ""


@dataclass(frozen=True)
class Part:
    """A part of a section.

    Attributes:
        kind: How the template shows it.
        content: A text, rows, an SVG, pictures or other parts.
        title: Its caption or summary.
        headings: Names of the columns of a table.
    """

    kind: Literal[
        "note",
        "warning",
        "heading",
        "table",
        "facts",
        "tiles",
        "chart",
        "gallery",
        "folded",
        "beside",
    ]
    content: Any
    title: str = ""
    headings: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A section of a page.

    Attributes:
        name: Its anchor.
        heading: Its title.
        parts: From top to bottom; a page leaves out sections without any.
    """

    name: str
    heading: str
    parts: Sequence[Part]


def section(name: str, heading: str, *parts: Part | None) -> Section:
    """Return a section of those parts that are there."""
    return Section(name, heading, [part for part in parts if part is not None])


def note(words: str) -> Part | None:
    """Return a paragraph that explains; None without words."""
    return Part("note", words) if words else None


def warning(words: str) -> Part | None:
    """Return a paragraph that must not be missed; None without words."""
    return Part("warning", words) if words else None


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str) -> Part | None:
    """Return a table whose first column names its rows; None without rows."""
    cells = [[plain(cell) if type(cell) is float else cell for cell in row] for row in rows]
    return Part("table", cells, title, headings) if cells else None


def facts(pairs: Iterable[tuple[str, object]]) -> Part | None:
    """Return a table of names and values, without those that are empty."""
    rows = [(name, value) for name, value in pairs if value not in ("", None)]
    return Part("facts", rows) if rows else None


def folded(title: str, part: Part | None) -> Part | None:
    """Return a part that is shown when the reader asks for it."""
    return None if part is None else Part("folded", [part], title)


def flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return names and values of objects within objects, as "cache.size"."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", _worded(value)))
    return found


def _worded(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_worded, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
