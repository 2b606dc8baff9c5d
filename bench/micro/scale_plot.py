"""The growth of cost as a picture of five charts: what was measured are points, what was computed is a dashed line."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.compare.timer import Rate
from bench.micro.scale_result import ScaleResult, read_scale
from bench.output.errors import BenchError

_INK, _MEASURED, _COMPUTED = "#22262e", "#1f6fb4", "#c8500a"
_MARGIN = 1.35  # beside the first and the last point of a logarithmic axis, a factor


def draw_scale(result: ScaleResult, path: Path) -> None:
    """Draw every part as a chart, into one SVG file on a ground of its own.

    Raises:
        BenchError: matplotlib is not installed.
    """
    matplotlib = require_matplotlib()
    figure = matplotlib.figure.Figure(
        figsize=(13, 7.8), layout="constrained", facecolor="white", edgecolor="white"
    )
    figure.suptitle(_title(result), color=_INK, fontsize=11)
    axes = figure.subplots(2, 3).flatten()
    for axis, draw in zip(axes, (_threads, _sizes, _batches, _lengths, _memory), strict=False):
        draw(axis, result)
        axis.grid(alpha=0.35)
        axis.tick_params(colors=_INK)
    _explain(axes[5], computed=bool(result.predicted))
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gpu-aug"}):
        figure.savefig(path, format="svg", metadata={"Date": None}, facecolor="white")


def require_matplotlib() -> Any:
    """Return matplotlib with its figures.

    Raises:
        BenchError: It is not installed.
    """
    try:
        import matplotlib.figure
    except ImportError as error:
        raise BenchError("charts are drawn by matplotlib: pip install 'gpu-aug[plots]'") from error
    return matplotlib


def _title(result: ScaleResult) -> str:
    told = result.settings
    return (
        f"{told.get('decoder')}+{told.get('engine')} on {told.get('device')}, {told.get('cores')} cores, batches of "
        f"{told.get('batch_size')}, {told.get('data')}"
    )


def _threads(axis: Any, result: ScaleResult) -> None:
    _points(axis, result.threads)
    computed: dict[int, float] = {}
    if result.predicted:
        first = next(iter(result.threads.values())).median
        computed = {1: first, **result.predicted}
        axis.plot(list(computed), list(computed.values()), "--", color=_COMPUTED)
    axis.set(title="Threads", xlabel="threads", ylabel="images/s", xscale="log", yscale="log")
    _ticks(axis, sorted({*result.threads, *computed}))
    _plain(axis.yaxis)


def _sizes(axis: Any, result: ScaleResult) -> None:
    _points(axis, result.megapixels)
    axis.set(title="Image size", xlabel="megapixels", ylabel="images/s", xscale="log", yscale="log")
    _ticks(axis, list(result.megapixels))
    _plain(axis.yaxis)


def _batches(axis: Any, result: ScaleResult) -> None:
    _points(axis, result.batch_sizes)
    axis.set(title="Batch size", xlabel="images in a batch", ylabel="images/s", xscale="log")
    _ticks(axis, list(result.batch_sizes))
    axis.set_ylim(0, _top([max(rate.runs) for rate in result.batch_sizes.values()]))


def _lengths(axis: Any, result: ScaleResult) -> None:
    waits = [start.first_batch_seconds * 1e3 for start in result.lengths.values()]
    axis.plot(list(result.lengths), waits, "o", color=_MEASURED)
    axis.set(title="Dataset length", xlabel="samples", ylabel="ms to the first batch", xscale="log")
    axis.set_ylim(0, _top(waits))


def _memory(axis: Any, result: ScaleResult) -> None:
    sizes = [mib for _, mib in result.memory]
    axis.plot([at for at, _ in result.memory], sizes, "o", color=_MEASURED, markersize=3)
    axis.set(title="Memory over time", xlabel="batches", ylabel="MiB")
    axis.set_ylim(0, _top(sizes))
    axis.set_xlim(left=0)


def _explain(axis: Any, *, computed: bool) -> None:
    """Say what is what, in the place of a sixth chart."""
    axis.axis("off")
    axis.errorbar([], [], yerr=[], fmt="o", color=_MEASURED, capsize=3, label=_WORDS_OF_POINTS)
    if computed:
        axis.plot([], [], "--", color=_COMPUTED, label=_WORDS_OF_LINE)
    axis.legend(loc="center left", fontsize=10, frameon=False, labelcolor=_INK)


_WORDS_OF_POINTS = "measured: median of the rounds,\nbars from the slowest to the fastest"
_WORDS_OF_LINE = "computed by Amdahl's law from one thread\nand the time that threads do not share"


def _points(axis: Any, rates: Mapping[int, Rate] | Mapping[float, Rate]) -> None:
    """Draw medians as points, with bars from the smallest to the largest run."""
    medians = [rate.median for rate in rates.values()]
    below = [rate.median - min(rate.runs) for rate in rates.values()]
    above = [max(rate.runs) - rate.median for rate in rates.values()]
    axis.errorbar(list(rates), medians, yerr=[below, above], fmt="o", color=_MEASURED, capsize=3)


def _ticks(axis: Any, values: list[Any]) -> None:
    """Mark a logarithmic x axis where there are points, and nowhere else."""
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.set_xticks([], minor=True)
    axis.set_xlim(min(values) / _MARGIN, max(values) * _MARGIN)


def _plain(axis: Any) -> None:
    """Write the numbers of a logarithmic axis out."""
    import matplotlib.ticker as tickers

    axis.set_major_locator(tickers.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(tickers.FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(tickers.NullFormatter())


def _top(values: list[float]) -> float:
    return 1.12 * max(values, default=1)


if __name__ == "__main__":  # RESULT.json PICTURE.svg
    draw_scale(read_scale(Path(sys.argv[1])), Path(sys.argv[2]))
