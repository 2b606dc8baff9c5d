"""What sections are made of: headings, notes, tables, tiles."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.report.markup import Markup, joined, tag
from bench.report.numbers import NONE, plain

Cells = Sequence[object]


def section(name: str, heading: str, *parts: object) -> Markup:
    """A section with its heading; nothing where it has no parts."""
    inside = joined(*parts)
    if not inside:
        return Markup()
    return tag("section", tag("h2", heading, id=f"{name}-h"), inside, id=name)


def note(*words: object) -> Markup:
    """A paragraph that explains."""
    return tag("p", *words, class_="note")


def warning(*words: object) -> Markup:
    """A paragraph that must not be missed."""
    return tag("p", tag("strong", "Note: "), *words, class_="warning", role="note")


def data(number: float, words: str) -> Markup:
    """A number as people read it, with the number itself for programs."""
    return tag("data", words, value=repr(number))


def table(headings: Sequence[str], rows: Iterable[Cells], *, caption: str = "") -> Markup:
    """A table whose first column names its rows; cells that begin with a digit stand on the right.

    Args:
        headings: Names of the columns.
        rows: Text or markup, as many of each as there are headings.
        caption: What it shows.
    """
    cells = list(rows)
    if not cells:
        return Markup()
    body = [tag("tr", tag("th", row[0], scope="row"), *map(_cell, row[1:])) for row in cells]
    names = [
        tag(
            "th", name, scope="col", class_="n" if number and _is_number(cells[0][number]) else None
        )
        for number, name in enumerate(headings)
    ]
    head = tag("tr", *names)
    title = tag("caption", tag("span", caption)) if caption else ""
    whole = tag("table", title, tag("thead", head), tag("tbody", *body))
    return tag("div", whole, class_="scroll", tabindex=0, role="group", aria_label=caption or None)


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """A table of names and what they are."""
    rows = [
        tag("tr", tag("th", name, scope="row"), tag("td", value))
        for name, value in pairs
        if value not in ("", None)
    ]
    return tag("table", tag("tbody", *rows), class_="facts") if rows else Markup()


def tiles(entries: Iterable[tuple[str, object, str]]) -> Markup:
    """The most telling numbers: (name, number, what it means) each."""
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", value), tag("dd", words, class_="note"))
            for name, value, words in entries
        ),
        class_="tiles",
    )


def folded(summary: str, *parts: object, is_long: bool = False) -> Markup:
    """Parts that are shown when somebody asks for them; printed, too, unless they are long."""
    return tag("details", tag("summary", summary), *parts, class_="long" if is_long else None)


def code(text: str) -> Markup:
    """A name that comes from the data."""
    return tag("code", text)


def flat(values: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Names and values of objects within objects, as "cache.size"."""
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += flat(value, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", worded(value)))
    return found


def worded(value: Any) -> str:
    """A value of JSON in words; a dash where there is none."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(map(worded, value))
    return str(value)


def _cell(value: object) -> Markup:
    class_ = "n" if _is_number(value) else None
    return tag("td", plain(value) if isinstance(value, float) else value, class_=class_)


def _is_number(value: object) -> bool:
    """Whether a cell stands on the right: it begins with a digit, or has nothing to say."""
    if isinstance(value, Markup):
        return value.startswith("<data")
    text = str(value)
    return text in (NONE, "") or text.lstrip("~")[:1].isdigit()
