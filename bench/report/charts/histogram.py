"""How many there are of each size."""

from collections.abc import Callable, Sequence

from bench.report.charts.frame import chart, horizontal_axis, percent, vertical_axis
from bench.report.charts.scale import Scale
from bench.report.markup import Markup, tag
from bench.report.numbers import count
from readers.plural import counted

NUM_BINS = 40


def histogram(
    title: str,
    scale: Scale,
    edges: Sequence[float],
    counts: Sequence[int],
    *,
    words: Callable[[float], str],
    thing: str,
    caption: str = "",
) -> Markup:
    """Return columns.

    Args:
        title: What is counted.
        scale: The horizontal axis.
        edges: Ends of the columns, [N + 1].
        counts: How many there are in each, [N].
        words: Writes a number of the horizontal axis.
        thing: What is counted.
        caption: How to read it.
    """
    upward = Scale.from_zero(1.05 * max(counts, default=0))
    columns = []
    for number, many in enumerate(counts):
        if not many:
            continue
        low, high = edges[number], edges[number + 1]
        left, right = scale.place(low), scale.place(high)
        columns.append(
            tag(
                "rect",
                tag("title", f"{words(low)} to {words(high)}: {counted(many, thing)}"),
                x=percent(left),
                width=percent(right - left),
                y=percent(1 - upward.place(many)),
                height=percent(upward.place(many)),
            )
        )
    whole = [tick for tick in upward.ticks(4) if tick == int(tick)]
    return chart(
        title,
        vertical_axis(upward, count, whole),
        horizontal_axis(scale, words, scale.ticks(), "logarithmic" if scale.is_log else ""),
        tag("g", *columns, class_="columns"),
        caption=caption,
        unit=f"{thing}s",
        height=170,
    )
