"""Charts of a page, drawn by matplotlib as SVG; the same numbers give the same bytes."""

import base64
import io
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.report.elements import Chart, cleaned
from bench.report.log import Interval
from bench.report.numbers import seconds as seconds_words
from readers.prepare.percentiles import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "gpu-aug",  # ids of the file's parts are random without it
    "svg.fonttype": "none",  # text stays text: small files, and readers can search it
    "text.parse_math": False,  # names of stages come from logs and may hold dollar signs
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
}
_COLOUR, _BAND, _MARK = "#1f66b5", "#b9d3ee", "#a3372c"
_WIDTH = 9.6  # inches, the width of the page's column at 100 px each
_WIDE = 8  # an axis whose largest number is this many times the smallest is logarithmic
_TAIL = 30  # the same for counts of classes
_BINS = 40
_DENSITY_BINS = 32
_MOST_EPOCHS_MARKED = 12  # names of more would cover each other
_LOCK = threading.Lock()  # matplotlib's settings belong to the process


class _Drawing:
    """A figure while it is drawn, and its data URI afterwards."""

    source = ""


@contextmanager
def _drawing(title: str, height: float, x: str, y: str) -> Iterator[tuple["Axes", _Drawing]]:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    drawing = _Drawing()
    with _LOCK, rc_context(_STYLE), warnings.catch_warnings():
        # Text is drawn by the reader's fonts, which may have letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(title=cleaned(title), xlabel=x, ylabel=y)
        yield axes, drawing
        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    drawing.source = f"data:image/svg+xml;base64,{encoded}"


def edges_of(intervals: Sequence[Interval]) -> list[float]:
    """Return the ends of successive intervals in seconds, [N + 1]."""
    return [intervals[0].began, *(one.ended for one in intervals)]


def time_chart(
    title: str,
    edges: Sequence[float],
    values: Sequence[float],
    *,
    unit: str,
    band: tuple[Sequence[float], Sequence[float]] | None = None,
    epochs: Iterable[tuple[float, int]] = (),
    ceiling: float = 0.0,
    caption: str = "",
) -> Chart:
    """Draw one number over time.

    Args:
        title: Stands above the chart.
        edges: Ends of the intervals in seconds, [N + 1].
        values: The mean of each interval, [N].
        unit: The unit of the values.
        band: The lowest and the highest value within each interval, [N] each.
        epochs: Begin in seconds and number of epochs, which are marked.
        ceiling: The largest value that is possible; 0 for none.
        caption: Stands below the chart.
    """
    with _drawing(title, 2.6, "time since the start", unit) as (axes, drawing):
        axes.stairs(values, edges, baseline=None, color=_COLOUR, linewidth=1.5, label="mean")
        if band and band[0] != band[1]:
            low, high = ([*one, one[-1]] for one in band)
            axes.fill_between(
                edges, low, high, step="post", color=_BAND, label="lowest to highest second"
            )
        if ceiling:
            axes.axhline(
                ceiling, color=_MARK, linestyle="--", label=f"largest possible: {ceiling:g}"
            )
        if len(axes.get_legend_handles_labels()[0]) > 1:
            axes.legend(loc="lower right", frameon=False, ncols=3)
        _mark_epochs(axes, list(epochs))
        _finish_time(axes, edges)
    return Chart(title, drawing.source, caption)


def waiting_chart(
    title: str, edges: Sequence[float], shares: Mapping[str, Sequence[float]], caption: str
) -> Chart:
    """Draw how much of each interval was spent waiting, by stage on top of each other; shares are 0 to 1."""
    with _drawing(title, 3.0, "time since the start", "share of the time") as (axes, drawing):
        base = np.zeros(len(edges) - 1)
        for number, (name, values) in enumerate(shares.items()):
            top = base + np.asarray(values)
            axes.stairs(
                top, edges, baseline=base, fill=True, color=f"C{number % 10}", label=cleaned(name)
            )
            base = top
        # Few names fit into one row of the chart's width.
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        _finish_time(axes, edges)
    return Chart(title, drawing.source, caption)


def histogram(title: str, spread: Spread, *, x: str, y: str, unit: float = 1) -> Chart:
    """Draw how often numbers occur.

    Args:
        title: Stands above the chart.
        spread: The numbers, not all of them equal.
        x: What the numbers are, with their unit.
        y: What is counted.
        unit: By which the numbers are divided.
    """
    from matplotlib.ticker import MaxNLocator

    edges = _edges(spread.lowest, spread.highest, _BINS)
    with _drawing(title, 2.4, x, y) as (axes, drawing):
        axes.stairs(spread.histogram(edges.tolist()), edges / unit, fill=True, color=_COLOUR)
        _scale(axes, "x", spread.lowest, spread.highest)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
    about = "" if spread.is_exact else "Numbers are rounded to 1 %."
    return Chart(title, drawing.source, about)


def density_chart(title: str, shapes: Mapping[tuple[int, int], int], things: str) -> Chart:
    """Draw how often each height and width occurs; `shapes` counts things by (height, width) in pixels."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import NullFormatter

    heights, widths = np.array(list(shapes)).T
    ends = [(int(one.min()), int(one.max())) for one in (widths, heights)]
    with _drawing(title, 4.0, "width in pixels", "height in pixels") as (axes, drawing):
        bins = [_edges(*end, _DENSITY_BINS) for end in ends]
        counts = list(shapes.values())
        *_, mesh = axes.hist2d(
            widths, heights, bins, weights=counts, norm=LogNorm(1), cmin=1, cmap="viridis_r"
        )
        mesh.set_rasterized(True)  # a thousand cells as one small picture
        for name, end in zip("xy", ends, strict=True):
            _scale(axes, name, *end)
        assert axes.figure is not None
        bar = axes.figure.colorbar(mesh, label=f"{things} in a cell", format=_number)
        bar.minorformatter = NullFormatter()
    return Chart(title, drawing.source)


def ranking_chart(title: str, counts: Sequence[int], things: str) -> Chart:
    """Draw counts of classes from the largest to the smallest; all are greater than 0."""
    with _drawing(title, 2.4, "rank of the class", things) as (axes, drawing):
        # No more steps than the chart has pixels.
        every = -(-len(counts) // 500)
        edges = [*range(0, len(counts), every), len(counts)]
        axes.stairs(counts[::every], edges, fill=True, color=_COLOUR)
        if counts[0] >= _TAIL * counts[-1]:
            _scale(axes, "y", counts[-1], counts[0])
            axes.set_ylim(counts[-1] / 2, 1.2 * counts[0])
        else:
            axes.set_ylim(bottom=0)
    return Chart(title, drawing.source)


def _edges(low: float, high: float, bins: int) -> Any:
    """Return bin edges that hold both numbers; of whole numbers no bin is narrower than 1."""
    if low > 0 and high / low >= _WIDE:
        return np.geomspace(low, high * (1 + 1e-9) + 1e-9, bins + 1)
    return np.linspace(low - 0.5, high + 0.5, min(bins, int(high - low) + 1) + 1)


def _scale(axes: "Axes", name: str, low: float, high: float) -> None:
    """Set the scale of the axis called `name`, "x" or "y"."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis = axes.xaxis if name == "x" else axes.yaxis
    if low > 0 and high / low >= _WIDE:
        axes.set(**{f"{name}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(_number)


def _number(value: float, _: object = None) -> str:
    """Write a tick; matplotlib's own words for powers of ten need its mathematics."""
    return f"{value:,.6g}"


def _mark_epochs(axes: "Axes", epochs: Sequence[tuple[float, int]]) -> None:
    if len(epochs) > 1:
        axes.set_title(axes.get_title(loc="left"), pad=16)  # room for the names of epochs
    every = max(1, -(-len(epochs) // _MOST_EPOCHS_MARKED))
    for at, number in epochs[1::every]:
        axes.axvline(at, color="#566273", linewidth=0.8, linestyle=":")
        label = f" epoch {number}"
        axes.text(at, 1.0, label, transform=axes.get_xaxis_transform(), fontsize=8, va="bottom")


def _finish_time(axes: "Axes", edges: Sequence[float]) -> None:
    axes.set_xlim(0, max(edges[-1], 1e-3))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: seconds_words(value))
