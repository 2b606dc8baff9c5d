"""A page: sections one below the other, in one HTML file that loads nothing."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata, resources
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from bench.report.numbers import NONE
from bench.report.parts import Bar, Code, Number, Section

# A browser refuses whatever a page with this would load or run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
# What XML 1.0 (section 2.2) does not allow: control characters, and surrogates, which stand for bytes that are no UTF-8.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(title: str, about: str, sections: Iterable[Section]) -> str:
    """Return the HTML of a page.

    Args:
        title: Its heading.
        about: A line below it; "" for none.
        sections: Those without parts are left out.
    """
    environment = Environment(
        loader=PackageLoader("bench.report"), autoescape=True, finalize=_without_forbidden
    )
    environment.tests |= {
        "bar": lambda value: isinstance(value, Bar),
        "code": lambda value: isinstance(value, Code),
        "number": lambda value: isinstance(value, Number),
        "figures": _is_right_aligned,
    }
    style = resources.files("bench.report").joinpath("style.css").read_text(encoding="utf-8")
    return environment.get_template("page.html.j2").render(
        title=title,
        about=about,
        sections=[section for section in sections if section.parts],
        policy=_POLICY,
        style=Markup(style),
        version=metadata.version("gpu-aug"),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _without_forbidden(value: Any) -> Any:
    """Replace the characters of a text that no page may hold."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _FORBIDDEN.sub("\ufffd", value)


def _is_right_aligned(cell: object) -> bool:
    """Return whether a cell stands on the right: it begins with a digit, or is empty."""
    if isinstance(cell, Number):
        return True
    text = str(cell)
    is_text = isinstance(cell, str) and not isinstance(cell, Code)
    return is_text and (text in (NONE, "") or text.lstrip("~")[:1].isdigit())
