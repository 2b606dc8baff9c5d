"""How many times faster each of ours is than each of the others, round by round."""

from collections.abc import Sequence
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from bench.compare.result import Row

RATIO_MEANING = (
    "every ratio, in ratios and in verdicts, is the median over rounds of the ratio within a round, over the rounds "
    "in which both had a turn; the fastest baseline is the one with the largest median of its runs."
)

_OURS = "gpu-aug/"


def times(one: Row, other: Row) -> float:
    """Ratio of the rates of two rows: the median over rounds of the ratio within a round."""
    return median(_by_round(one, other))


def fastest_baseline(rows: Sequence[Row]) -> Row | None:
    """The baseline with the largest median of its runs: that median is the speed which the table shows."""
    return max(
        (row for row in rows if row.kind == "baseline"),
        key=lambda row: row.rate.median,
        default=None,
    )


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
    ours = [row for row in rows if row.kind == "engine"]
    others = [row for row in rows if row.kind != "engine"]
    if not ours or not others:
        return None
    table = Table(
        title="times the speed of the row (median of the ratios within each round)",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", no_wrap=True)
    for mine in ours:
        heading = mine.name.removeprefix(_OURS).replace("+", "+\n").replace(" (", "\n(")
        table.add_column(heading, justify="right", overflow="fold")
    for other in others:
        table.add_row(other.name, *(f"{times(mine, other):.2f}" for mine in ours))
    return table


def _ratio(mine: Row, other: Row) -> dict[str, object]:
    runs = _by_round(mine, other)
    return {"median": round(median(runs), 3), "runs": [round(run, 3) for run in runs]}


def _by_round(one: Row, other: Row) -> list[float]:
    """The ratio within each round in which both had a turn.

    Runs stand in the order of the rounds from the first one; who has fewer dropped out early.
    """
    return [mine / theirs for mine, theirs in zip(one.rate.runs, other.rate.runs, strict=False)]
