"""What surrounds a chart: its title, axes with numbers, and marks.

Places are percent of the plot, and texts have the size of the page's text: a chart that is twice as wide has no
larger letters. Curves lie in an inner picture that is stretched, with lines that are not.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from bench.report.charts.scale import Scale
from bench.report.markup import Markup, joined, tag

_FINE = 1000  # units of the stretched picture, each way
LABEL_AT_MOST = 0.8
"""The share of the width at which a label that begins there still fits on a narrow page."""


def chart(
    title: str, *parts: object, caption: str = "", height: int = 200, unit: str = ""
) -> Markup:
    """Return a figure with a chart.

    Args:
        title: What it shows; also what is read aloud.
        parts: Markup from the other functions.
        caption: How to read it.
        height: Of the plot, in pixels.
        unit: Of the vertical axis.
    """
    plot = tag(
        "svg",
        tag("title", title),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        class_="plot",
        role="img",
        aria_label=title,
        width="100%",
        height=height,
    )
    heading = tag("figcaption", tag("b", title), tag("span", unit, class_="unit") if unit else "")
    note = tag("p", caption, class_="note") if caption else ""
    return tag("figure", heading, plot, note, class_="chart")


def percent(place: float) -> str:
    """A share as SVG writes it."""
    return f"{100 * place:.5g}%"


def vertical_axis(
    scale: Scale, label: Callable[[float], str], ticks: Sequence[float] | None = None
) -> Markup:
    """Lines across the plot, with numbers on their left."""
    lines = []
    for tick in scale.ticks(4) if ticks is None else ticks:
        at = percent(1 - scale.place(tick))
        lines.append(tag("line", x1="0", x2="100%", y1=at, y2=at))
        lines.append(tag("text", label(tick), x="0", y=at, dx=-8, dy=4, text_anchor="end"))
    return tag("g", *lines, class_="axis")


def horizontal_axis(
    scale: Scale, label: Callable[[float], str], ticks: Sequence[float], name: str = ""
) -> Markup:
    """Short lines below the plot with numbers, and the axis' name at their end."""
    lines: list[Markup] = []
    for tick in ticks:
        place = scale.place(tick)
        at = percent(place)
        anchor = "start" if place < 0.02 else "end" if place > 0.98 else "middle"
        lines.append(tag("line", x1=at, x2=at, y1="100%", y2="100%", class_="tick"))
        lines.append(tag("text", label(tick), x=at, y="100%", dy=17, text_anchor=anchor))
    if name:
        lines.append(tag("text", name, x="100%", y="100%", dy=34, text_anchor="end", class_="name"))
    return tag("g", *lines, class_="axis")


def marks(scale: Scale, places: Sequence[tuple[float, str]]) -> Markup:
    """Dashed lines down the plot, each with a word at its top."""
    lines = []
    for number, word in places:
        place = scale.place(number)
        at, left = percent(place), place < LABEL_AT_MOST
        lines.append(tag("line", x1=at, x2=at, y1="-4", y2="100%"))
        if word:
            anchor = "start" if left else "end"
            lines.append(tag("text", word, x=at, y="0", dy=-7, text_anchor=anchor))
    return tag("g", *lines, class_="marks")


def stretched(*shapes: Markup) -> Markup:
    """Shapes in units of a thousandth of the plot, as wide as the plot is."""
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {_FINE} {_FINE}",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )


def points(horizontal: Scale, vertical: Scale, places: Sequence[tuple[float, float]]) -> str:
    """Places (x, y) as the points of a `stretched` polyline."""
    return " ".join(
        f"{_FINE * horizontal.place(x):.1f},{_FINE * (1 - vertical.place(y)):.1f}"
        for x, y in places
    )


def hover_columns(edges: Sequence[float], scale: Scale, words: Sequence[str]) -> Markup:
    """Invisible columns between edges that show words when the pointer rests on them."""
    columns = [
        tag(
            "rect",
            tag("title", text),
            x=percent(scale.place(low)),
            y="0",
            width=percent(scale.place(high) - scale.place(low)),
            height="100%",
        )
        for (low, high), text in zip(pairwise(edges), words, strict=True)
    ]
    return tag("g", *columns, class_="hover")


def legend(*entries: tuple[str, str]) -> Markup:
    """What the shapes of a chart stand for: (class of the shape, words) each."""
    return tag(
        "p",
        joined(
            *(
                tag("span", tag("i", class_=f"key {kind}", aria_hidden="true"), words)
                for kind, words in entries
            )
        ),
        class_="legend",
    )
