"""Counts from the largest to the smallest: classes."""

from collections.abc import Sequence

from bench.report.charts.frame import chart, horizontal_axis, points, stretched, vertical_axis
from bench.report.charts.scale import Scale
from bench.report.markup import Markup, tag
from bench.report.numbers import count

_MOST_POINTS = 500
_TAIL = 30  # times the smallest, from which on the axis is logarithmic


def ranking_chart(title: str, counts: Sequence[int], *, things: str, caption: str = "") -> Markup:
    """Return an area that falls from the largest to the smallest.

    Args:
        title: What it shows.
        counts: From the largest to the smallest, all greater than 0.
        things: What is counted, in the plural.
        caption: How to read it.
    """
    is_log = counts[0] >= _TAIL * counts[-1]
    # A logarithmic axis begins below the smallest count, which would have no height otherwise.
    upward = (
        Scale(counts[-1] / 2, 1.2 * counts[0], is_log=True)
        if is_log
        else Scale.from_zero(1.05 * counts[0])
    )
    across = Scale(0.0, len(counts))
    corners = [(0.0, upward.low)]
    every = -(-len(counts) // _MOST_POINTS)
    for rank in range(0, len(counts), every):
        corners += [(rank, counts[rank]), (min(rank + every, len(counts)), counts[rank])]
    corners.append((len(counts), upward.low))
    ticks = [tick for tick in upward.ticks(4) if tick == int(tick)]
    ranks = [1, *(tick for tick in across.ticks(4) if 1 < tick <= len(counts))]
    return chart(
        title,
        vertical_axis(upward, count, ticks),
        horizontal_axis(across, count, ranks, "rank of the class"),
        stretched(tag("path", d=f"M{points(across, upward, corners)}Z", class_="area")),
        caption=caption,
        unit=f"{things}, logarithmic" if is_log else things,
        height=160,
    )
