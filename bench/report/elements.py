"""The content of a page as plain values: sections of notes, tables, charts and pictures; `templates/page.html` writes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.report.numbers import NONE, plain, share

# What XML 1.0 (section 2.2) forbids: control characters, and surrogates, which stand for bytes that are no UTF-8.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def cleaned(text: str) -> str:
    """Return a text whose characters are all allowed in HTML and SVG; others become U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


@dataclass(frozen=True)
class Share:
    """A table cell with a bar and a percentage: `part` of `total`."""

    part: float
    total: float

    @property
    def fraction(self) -> float:
        """Between 0 and 1."""
        return min(max(self.part / self.total, 0.0), 1.0) if self.total > 0 else 0.0

    def __str__(self) -> str:
        return share(self.part, self.total)


@dataclass(frozen=True)
class Note:
    """A paragraph; a warning is set off from the others."""

    kind: ClassVar[str] = "note"
    text: str
    is_warning: bool = False


@dataclass(frozen=True)
class Tiles:
    """The most important numbers: (name, number, explanation) each."""

    kind: ClassVar[str] = "tiles"
    entries: Sequence[tuple[str, object, str]]


@dataclass(frozen=True)
class Table:
    """Rows whose first cell names them. Without headings it lists facts; a folded one is opened by a click."""

    kind: ClassVar[str] = "table"
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    folded: bool = False

    @property
    def numeric(self) -> list[bool]:
        """For each column whether it is aligned to the right."""
        return [_is_number(cell) for cell in self.rows[0]]


@dataclass(frozen=True)
class Chart:
    """A drawing: `source` is a data URI of an SVG file, `title` is read aloud in its place."""

    kind: ClassVar[str] = "chart"
    title: str
    source: str
    caption: str = ""


@dataclass(frozen=True)
class Card:
    """A picture of a sample with its key and further words."""

    key: str
    words: str
    picture: Any  # a Thumbnail


@dataclass(frozen=True)
class Gallery:
    """Cards beside each other."""

    kind: ClassVar[str] = "gallery"
    cards: Sequence[Card]


Part = Note | Tiles | Table | Chart | Gallery


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading; `name` is its anchor."""

    name: str
    heading: str
    parts: Sequence[Part]


def section(name: str, heading: str, *parts: Part | None) -> Section | None:
    """Return a section of the parts that exist; None if there are none."""
    present = [part for part in parts if part is not None]
    return Section(name, heading, present) if present else None


def note(text: str, *, when: object = True) -> Note | None:
    """Return a paragraph under a condition."""
    return Note(text) if when else None


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    folded: bool = False,
) -> Table | None:
    """Return a table; None without rows."""
    listed = list(rows)
    return Table(caption, headings, listed, folded) if listed else None


def facts(
    caption: str, pairs: Iterable[tuple[str, object]], *, folded: bool = False
) -> Table | None:
    """Return a table of names and values, without those that are empty."""
    return table(caption, (), [pair for pair in pairs if pair[1] not in ("", None)], folded=folded)


def flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Return the names and values of nested objects, as in ("cache.size", "3")."""
    pairs: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            pairs += flat(value, f"{before}{name}.")
        else:
            pairs.append((f"{before}{name}", _worded(value)))
    return pairs


def _worded(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_worded, value)) if isinstance(value, list) else str(value)


def _is_number(cell: object) -> bool:
    text = plain(cell) if isinstance(cell, float) else str(cell)
    return text in (NONE, "") or text.lstrip("~")[:1].isdigit()
