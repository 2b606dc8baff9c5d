"""How the growth of cost is shown: tables."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.compare.timer import Rate
from bench.micro.scale_parts import growth_mib
from bench.micro.scale_result import ScaleResult

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


def _law(result: ScaleResult) -> str:
    if not result.serial_seconds:
        return "computed: as if threads shared all work; the time under Python's lock cannot be measured here"
    return (
        f"computed: Amdahl's law with {result.serial_seconds * 1e6:.0f} µs per image under Python's lock, which threads do "
        f"not share, so at most {1 / result.serial_seconds:.0f} images/s; waking threads up, memory bandwidth and the storage "
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


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right")
    return table
