"""How the growth of cost is shown: tables, and a picture of five charts."""

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.compare.timer import Rate
from bench.micro.scale_parts import growth_mib
from bench.micro.scale_result import ScaleResult
from bench.output.errors import BenchError

FLAT_MIB = 16.0
"""Memory that grows by less than this between the second and the last quarter of a run counts as flat."""


def show_scale(result: ScaleResult, console: Console) -> None:
    """Print a table for every part and a sentence where one is due."""
    settings = result.settings
    console.print(
        Text(
            f"{settings['decoder']}+{settings['engine']} on {settings['device']}, batches of "
            f"{settings['batch_size']}, {settings['cores']} cores"
        ),
        soft_wrap=True,
    )
    threads = _table("threads", "threads", "images/s", "range", "")
    for number, rate in result.threads.items():
        threads.add_row(str(number), *_rate(rate), "measured")
    for number, predicted in result.predicted.items():
        if number > max(result.threads):
            threads.add_row(str(number), f"{predicted:.0f}", "", "computed", style="dim")
    console.print(threads)
    console.print(Text(_law(result), style="dim"), soft_wrap=True)
    sizes = _table("image size", "megapixels", "images/s", "range", "megapixels/s")
    for size, rate in result.megapixels.items():
        sizes.add_row(f"{size:g}", *_rate(rate), f"{size * rate.median:.0f}")
    console.print(sizes)
    batches = _table("batch size", "images", "images/s", "range", "")
    for batch, rate in result.batch_sizes.items():
        batches.add_row(str(batch), *_rate(rate), "")
    console.print(batches)
    lengths = _table("dataset length", "samples", "loader made, ms", "first batch, ms", "MiB more")
    for length, start in result.lengths.items():
        lengths.add_row(
            f"{length:.0e}",
            f"{start.build_seconds * 1e3:.1f}",
            f"{start.first_batch_seconds * 1e3:.0f}",
            f"{start.grown_mib:+.1f}",
        )
    console.print(lengths)
    console.print(Text(_memory(result)), soft_wrap=True)


def draw_scale(result: ScaleResult, path: Path) -> None:
    """Draw every part as a chart, into one SVG file.

    Raises:
        BenchError: matplotlib is not installed.
    """
    matplotlib = require_matplotlib()
    figure = matplotlib.figure.Figure(figsize=(13, 7.5), layout="constrained")
    axes = figure.subplots(2, 3).flatten()
    threads, sizes, batches, lengths, memory = axes[:5]
    axes[5].remove()
    threads.plot(*_points(result.threads), "o-", label="measured")
    if result.predicted:
        first = next(iter(result.threads.values())).median
        computed = {1: first, **result.predicted}
        threads.plot(computed.keys(), computed.values(), "--", label="by Amdahl's law")
        threads.legend()
    threads.set(title="Threads", xlabel="threads", ylabel="images/s", xscale="log", yscale="log")
    sizes.plot(*_points(result.megapixels), "o-")
    sizes.set(
        title="Image size", xlabel="megapixels", ylabel="images/s", xscale="log", yscale="log"
    )
    batches.plot(*_points(result.batch_sizes), "o-")
    batches.set(
        title="Batch size", xlabel="images in a batch", ylabel="images/s", xscale="log", ylim=0
    )
    waits = [start.first_batch_seconds * 1e3 for start in result.lengths.values()]
    lengths.plot(list(result.lengths), waits, "o-")
    lengths.set(
        title="Dataset length",
        xlabel="samples",
        ylabel="ms to the first batch",
        xscale="log",
        ylim=0,
    )
    memory.plot([at for at, _ in result.memory], [mib for _, mib in result.memory], "-")
    memory.set(title="Memory over time", xlabel="batches", ylabel="MiB", ylim=0)
    for axis in axes[:5]:
        axis.grid(alpha=0.4)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gpu-aug"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


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


def _law(result: ScaleResult) -> str:
    return (
        f"computed: Amdahl's law with {result.serial_seconds * 1e6:.0f} µs per image that threads do not "
        "share (the whole loader without pixels, gpu-aug bench overhead, taken as if all of it held Python's "
        f"lock), so at most {1 / result.serial_seconds:.0f} images/s; memory bandwidth and the storage "
        "are not in it"
    )


def _memory(result: ScaleResult) -> str:
    if not result.memory:
        return "memory was not watched"
    grown = growth_mib(result.memory)
    taken, size = result.memory[-1]
    return (
        f"memory over {taken} batches: {size:.0f} MiB at the end, {grown:+.1f} MiB from the second quarter to "
        f"the last: {'flat' if grown < FLAT_MIB else 'GROWING'}"
    )


def _rate(rate: Rate) -> tuple[str, str]:
    return f"{rate.median:.0f}", f"{min(rate.runs):.0f}-{max(rate.runs):.0f}"


def _points(rates: dict[int, Rate] | dict[float, Rate]) -> tuple[list[float], list[float]]:
    return list(rates), [rate.median for rate in rates.values()]


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
