"""Draw the charts of a page with matplotlib as SVG; equal values give equal bytes."""

import base64
import io
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.report.numbers import cleaned, seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: dict[str, Any] = {
    "svg.hashsalt": "gpu-aug",  # without it, the ids in the file are random
    "svg.fonttype": "none",  # text stays text: files are small and searchable
    "text.parse_math": False,  # names of stages come from logs and may contain dollar signs
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
}
_COLOUR, _BAND = "#1f66b5", "#b9d3ee"
_WIDTH = 9.6  # inches, the width of the page's column at 100 px each
_SMALLEST_DOT, _LARGEST_DOT = 4, 600  # areas in points; a rare size is still visible
_MOST_EPOCHS_MARKED = 12  # more names would overlap
_LOCK = threading.Lock()  # matplotlib's settings are global to the process


@dataclass
class Chart:
    """A drawing: `source` is a data URI of an SVG file, and `title` is the text for screen readers."""

    title: str
    source: str = ""


@contextmanager
def _drawing(title: str, height: float, x: str, y: str) -> Iterator[tuple["Axes", Chart]]:
    """Yield axes to draw on and their chart, which gets its source at the end of the block."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    chart = Chart(title)
    with _LOCK, rc_context(_STYLE), warnings.catch_warnings():
        # Text is displayed with the reader's fonts, which may have letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set(title=cleaned(title), xlabel=x, ylabel=y)
        yield axes, chart
        buffer = io.BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    chart.source = f"data:image/svg+xml;base64,{encoded}"


def time_chart(
    title: str,
    edges: Sequence[float] | NDArray[np.float64],
    curves: Mapping[str, ArrayLike],
    unit: str,
    *,
    band: tuple[ArrayLike, ArrayLike] | None = None,
    epochs: Sequence[tuple[float, int]] = (),
) -> Chart:
    """Return a chart of values over time.

    Args:
        title: Shown above the chart.
        edges: Bounds of the intervals in seconds, [N + 1].
        curves: The mean of each interval, [N], by name; shares are stacked.
        unit: The unit of the curves.
        band: The lowest and the highest value in each interval, [N] each; without it the curves are shares, 0 to 1.
        epochs: Start in seconds and index of each epoch to mark.
    """
    with _drawing(title, 2.8, "time since the start", unit) as (axes, chart):
        if band is not None and not np.array_equal(*band):
            low, high = (np.append(one, np.asarray(one)[-1]) for one in band)
            name = "lowest to highest second"
            axes.fill_between(edges, low, high, step="post", color=_BAND, label=name)
        base = np.zeros(len(edges) - 1)
        for number, (name, values) in enumerate(curves.items()):
            top = base + np.asarray(values)
            how: dict[str, Any] = {"color": _COLOUR, "linewidth": 1.5, "baseline": None}
            if band is None:
                how = {"color": f"C{number % 10}", "fill": True, "baseline": base}
            axes.stairs(top, edges, label=cleaned(name), **how)
            base = top
        # Only a few names fit into one row.
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        _mark_epochs(axes, epochs)
        if band is None:
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        axes.set_xlim(0, max(edges[-1], 1e-3))
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_formatter(lambda value, _: seconds(value))
    return chart


def size_chart(title: str, shapes: Mapping[tuple[int, int], int]) -> Chart:
    """Return a chart with a dot for each image size; `shapes` counts images by (height, width) in pixels."""
    heights, widths = np.array(list(shapes)).T
    counts = np.array(list(shapes.values()))
    with _drawing(title, 4.0, "width in pixels", "height in pixels") as (axes, chart):
        areas = _SMALLEST_DOT + _LARGEST_DOT * counts / counts.max()
        # Rasterised, because there may be ten thousand dots; transparent, because many overlap.
        axes.scatter(widths, heights, areas, color=_COLOUR, alpha=0.4, rasterized=True)
        axes.xaxis.set_major_formatter("{x:,.6g}")
        axes.yaxis.set_major_formatter("{x:,.6g}")
    return chart


def _mark_epochs(axes: "Axes", epochs: Sequence[tuple[float, int]]) -> None:
    if len(epochs) > 1:
        axes.set_title(axes.get_title(loc="left"), pad=16)  # leaves room for the names of epochs
    every = max(1, -(-len(epochs) // _MOST_EPOCHS_MARKED))
    for at, number in epochs[1::every]:
        axes.axvline(at, color="#566273", linewidth=0.8, linestyle=":")
        label = f" epoch {number}"
        axes.text(at, 1.0, label, transform=axes.get_xaxis_transform(), fontsize=8, va="bottom")
