"""Bars within the rows of a table."""

from bench.report.charts.frame import percent
from bench.report.markup import Markup, tag


def bar(part: float) -> Markup:
    """A bar that is so long; the number beside it says the same.

    Args:
        part: 0 to 1.
    """
    length = min(max(part, 0.0), 1.0)
    return tag(
        "svg",
        tag("rect", x="0", y="0", width="100%", height="100%", class_="back"),
        tag("rect", x="0", y="0", width=percent(length), height="100%", class_="front"),
        xmlns="http://www.w3.org/2000/svg",
        class_="bar",
        aria_hidden="true",
        width="100%",
        height=12,
    )
