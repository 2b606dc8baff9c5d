"""Several curves over the same time, one below the other, each with its name beside it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.charts.frame import (
    horizontal_axis,
    hover_columns,
    points,
    stretched,
)
from bench.report.charts.scale import Scale, clock
from bench.report.markup import Markup, tag
from bench.report.numbers import share

_HEIGHT = 30
_TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of the rows: all have the same


@dataclass(frozen=True)
class Strip:
    """One row.

    Attributes:
        name: Stands on its left.
        values: Shares of each interval, 0 to 1.
        total: Stands on its right.
    """

    name: str
    values: Sequence[float]
    total: str


def strip_chart(
    title: str, edges: Sequence[float], strips: Sequence[Strip], caption: str = ""
) -> Markup:
    """Return rows of areas with one scale, of shares of the time.

    Args:
        title: What they show.
        edges: Ends of the intervals in seconds, [N + 1].
        strips: Rows with N values each.
        caption: How to read them.
    """
    across = Scale(0.0, max(edges[-1], 1e-3))
    highest = max(max(strip.values) for strip in strips)
    top = next((one for one in _TOPS if one >= highest), 1.0)
    upward = Scale.from_zero(top)
    rows: list[Markup] = []
    for number, strip in enumerate(strips):
        is_last = number == len(strips) - 1
        plot = _plot(f"{title}: {strip.name}", edges, (across, upward), strip, with_axis=is_last)
        name, total = (
            tag("span", strip.name, class_="name"),
            tag("span", strip.total, class_="total"),
        )
        rows.append(tag("div", name, plot, total, class_="strip"))
    heading = tag("figcaption", tag("b", title))
    height = f"The height of a row is {100 * top:g} % of the time. "
    note = tag("p", height + caption, class_="note")
    return tag("figure", heading, *rows, note, class_="chart")


def _plot(
    title: str,
    edges: Sequence[float],
    scales: tuple[Scale, Scale],
    strip: Strip,
    *,
    with_axis: bool,
) -> Markup:
    across, upward = scales
    corners = [(edges[0], 0.0)]
    for number, value in enumerate(strip.values):
        corners += [(edges[number], value), (edges[number + 1], value)]
    corners.append((edges[-1], 0.0))
    words = [
        f"{clock(round(edges[number], 1))} to {clock(round(edges[number + 1], 1))}: {strip.name} "
        f"{share(value, 1)} of the time"
        for number, value in enumerate(strip.values)
    ]
    area = tag("path", d=f"M{points(across, upward, corners)}Z", class_="area")
    return tag(
        "svg",
        tag("title", title),
        tag("rect", x="0", y="0", width="100%", height="100%", class_="back"),
        stretched(area),
        horizontal_axis(across, clock, across.time_ticks(), "time since the start")
        if with_axis
        else "",
        hover_columns(edges, across, words),
        xmlns="http://www.w3.org/2000/svg",
        class_="plot last" if with_axis else "plot",
        role="img",
        aria_label=title,
        width="100%",
        height=_HEIGHT,
    )
