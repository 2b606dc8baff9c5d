"""Charts as SVG, by matplotlib."""

import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from bench.report.numbers import count, seconds
from bench.report.parts import Part
from dali_pipes import MissingPackageError

_WIDTH = 9.6  # inches, the width of a page
_BLUE, _PALE, _RED, _GRAY = "#1f66b5", "#b9d3ee", "#a3372c", "#566273"
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gpu-aug",  # the same data gives the same file
    "font.family": ["system-ui", "DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.edgecolor": _GRAY,
    "xtick.color": _GRAY,
    "ytick.color": _GRAY,
}
# Of matplotlib's output: who made it when, with addresses of vocabularies.
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_WIDE = 50  # times the smallest number, from which on an axis is logarithmic
_MOST_SHAPES = 400  # points of a chart; more cannot be told apart
_NUM_BINS = 30

Draw = Callable[[Any], object]


def _chart(title: str, draw: Draw, height: float = 2.4) -> Part:
    """Return a chart that a function draws on matplotlib's axes."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackageError("charts need matplotlib: pip install 'gpu-aug[plots]'") from None
    # Labels that are drawn with fonts which this machine lacks are only measured with others.

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        draw(axes)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = _METADATA.sub("", svg[svg.index("<svg") :])
    return Part("chart", Markup(svg), title)


def over_time(
    title: str,
    edges: Sequence[float],
    values: Sequence[float],
    unit: str,
    *,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    ceiling: tuple[float, str] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> Part:
    """Return a chart of a value per interval of time.

    Args:
        title: What it shows.
        edges: In seconds, one more than there are intervals.
        values: Of each interval.
        unit: Of the values.
        low: The smallest value within each interval, where it is known.
        high: The largest.
        ceiling: A value that cannot be exceeded, and its name.
        marks: Moments in seconds, and their names.
    """

    def draw(axes: Any) -> None:
        if low is not None and high is not None:
            axes.stairs(high, edges, baseline=low, fill=True, color=_PALE, label="range")
        axes.stairs(values, edges, baseline=None, color=_BLUE, linewidth=1.8)
        if ceiling is not None:
            axes.axhline(ceiling[0], color=_RED, linestyle="--", linewidth=1.2, label=ceiling[1])
        for moment, name in marks:
            axes.axvline(moment, color=_GRAY, linestyle=":", linewidth=1)
            axes.annotate(name, (moment, 1), (3, -9), xycoords=("data", "axes fraction"), textcoords="offset points", color=_GRAY)  # fmt: skip
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        _time_axis(axes, edges)
        if low is not None or ceiling is not None:
            axes.legend(loc="lower right", frameon=False)

    return _chart(title, draw)


def shares_over_time(
    title: str, edges: Sequence[float], shares: Mapping[str, Sequence[float]]
) -> Part:
    """Return a chart of shares of the time, between 0 and 1, stacked on each other.

    Args:
        title: What it shows.
        edges: In seconds, one more than there are intervals.
        shares: Of each interval, by name.
    """

    def draw(axes: Any) -> None:
        rows = [[100 * share for share in (*values, values[-1])] for values in shares.values()]
        axes.stackplot(edges, rows, labels=list(shares), step="post")
        axes.set_ylabel("% of the time")
        axes.set_ylim(0, max(5.0, min(100.0, 1.1 * np.sum(rows, axis=0).max())))
        _time_axis(axes, edges)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, reverse=True)

    return _chart(title, draw)


def histogram(
    title: str,
    lowest: float,
    highest: float,
    count_between: Callable[[Sequence[float]], Sequence[int]],
    words: Callable[[float], str],
    things: str,
) -> Part:
    """Return a histogram.

    Args:
        title: What it shows.
        lowest: The smallest number.
        highest: The largest one, which is greater.
        count_between: Returns how many lie between each pair of neighbouring edges.
        words: Writes a number of the axis.
        things: What is counted.
    """
    is_wide = lowest > 0 and highest / lowest > _WIDE
    space = np.geomspace if is_wide else np.linspace
    # The last column includes its upper edge.
    edges = space(lowest, np.nextafter(highest, np.inf) + (highest - lowest) * 1e-9, _NUM_BINS + 1)

    def draw(axes: Any) -> None:
        axes.stairs(count_between(edges.tolist()), edges, fill=True, color=_BLUE)
        if is_wide:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda number, _: words(number))
        axes.xaxis.set_minor_formatter(lambda *_: "")
        axes.set_ylabel(things)

    return _chart(title, draw, height=2.0)


def shapes(title: str, counts: Mapping[tuple[int, int], int], things: str) -> Part:
    """Return a chart of heights and widths: a point for each of the most common shapes, larger where it is more common.

    Args:
        title: What it shows.
        counts: By height and width, in pixels.
        things: What is counted.
    """
    most = sorted(counts.items(), key=lambda item: -item[1])[:_MOST_SHAPES]
    sizes = np.array([shape for shape, _ in most])
    areas = np.array([many for _, many in most]) / most[0][1]

    def draw(axes: Any) -> None:
        axes.scatter(
            sizes[:, 1], sizes[:, 0], s=12 + 240 * areas, color=_BLUE, alpha=0.5, linewidths=0
        )
        for axis, values in ((axes.xaxis, sizes[:, 1]), (axes.yaxis, sizes[:, 0])):
            if values.max() / values.min() > _WIDE:
                axis._set_axes_scale("log")
            axis.set_major_formatter(lambda number, _: count(number))
        axes.set_xlabel(f"width in pixels; the largest point is {count(most[0][1])} {things}")
        axes.set_ylabel("height in pixels")

    return _chart(title, draw, height=3.6)


def ranking(title: str, counts: Sequence[int], things: str) -> Part:
    """Return a chart of numbers from the largest to the smallest.

    Args:
        title: What it shows.
        counts: Descending.
        things: What is counted.
    """

    def draw(axes: Any) -> None:
        # Of many classes every so many: a line of the page has about 700 pixels.
        ranks = np.unique(np.linspace(0, len(counts) - 1, 700).round().astype(int))
        axes.plot(ranks + 1, np.asarray(counts)[ranks], color=_BLUE, linewidth=1.8)
        if counts[0] / counts[-1] > _WIDE:
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        axes.set_xlabel("classes, the largest first")
        axes.set_ylabel(things)

    return _chart(title, draw)


def _time_axis(axes: Any, edges: Sequence[float]) -> None:
    axes.set_xlim(edges[0], max(edges[-1], edges[0] + 1e-3))
    axes.xaxis.set_major_formatter(lambda number, _: seconds(number))
