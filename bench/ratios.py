"""How many times faster each of ours is than each of the others, round by round."""

from collections.abc import Sequence
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.result import Row

_OURS = "gpu-aug/"


def ratios(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, object]]]:
    """Ratios of ours to each other row: the median over rounds of the ratio within a round.

    Within a round both had their turns seconds apart, so that a slow minute of the machine cancels.

    Returns:
        By the name of ours and the name of the other: "median", and "runs", one per round.
    """
    ours = [row for row in rows if row.kind == "engine"]
    others = [row for row in rows if row.kind != "engine"]
    return {mine.name: {other.name: _ratio(mine, other) for other in others} for mine in ours}


def ratio_table(rows: Sequence[Row]) -> Table | None:
    """The medians of `ratios`, ours in columns; None without anyone to compare with."""
    found = ratios(rows)
    if not found or not any(found.values()):
        return None
    table = Table(
        title="times the speed of the row (median of the ratios within each round)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    for name in found:
        heading = name.removeprefix(_OURS).replace("+", "+\n").replace(" (", "\n(")
        table.add_column(heading, justify="right", overflow="fold")
    for other in (row.name for row in rows if row.kind != "engine"):
        cells = [found[name][other]["median"] for name in found]
        table.add_row(other, *(f"{cell:.2f}" for cell in cells))
    return table


def _ratio(mine: Row, other: Row) -> dict[str, object]:
    pairs = zip(mine.rate.runs, other.rate.runs, strict=False)  # a row may have fewer runs
    runs = [one / another for one, another in pairs]
    return {"median": round(median(runs), 3), "runs": [round(run, 3) for run in runs]}
