"""Markdown: tables, and numbers as people read them."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeGuard


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines; columns whose heading ends in ":" are aligned to the right. Columns that are empty are left out."""
    kept = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    names = [headings[place] for place in kept]
    return [
        _row([name.rstrip(":") for name in names]),
        _row(["--:" if name.endswith(":") else "---" for name in names]),
        *(_row([row[place] or "-" for place in kept]) for row in rows),
        "",
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def number(value: float, digits: int = 3) -> str:
    """At least so many significant digits, whole numbers in full: 1234.5 as 1,234 and 0.012345 as 0.0123."""
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if "e" in text else text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """0.0123 as 1.2 %."""
    return f"{number(100 * share, 2)} %"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a number and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def shortened(text: str, length: int = 160) -> str:
    """The beginning of a text."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= length else flat[: length - 1].rstrip() + "…"
