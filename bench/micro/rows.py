"""Rows of contestants that do the same work: measuring, printing and writing of all small benchmarks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from bench.output.text import print_plain, result_table
from bench.timing import Measurement, Turn, measure_in_turns, ratio, take_turn

Contestant = Callable[[float], Turn]
"""Works for some seconds and returns its turn."""

Measured = Mapping[str, Measurement]

# Seconds of the uncounted turn. A turn has at least one call, in which libraries are loaded and functions are compiled.
_ONE_CALL = 1e-9


@dataclass(frozen=True)
class Task:
    """The input of a benchmark.

    Attributes:
        source: Photographs, as for `readers.open_dataset`.
        folder: An empty folder for files.
        quick: Whether to use tiny inputs, which only show that it works.
    """

    source: str
    folder: Path
    quick: bool


@dataclass(frozen=True)
class Row:
    """Contestants that do the same work.

    Attributes:
        name: The work.
        contestants: The contestants by name; the first one that works here is the reference.
        facts: Returns figures that are derived from the measurements, by name.
    """

    name: str
    contestants: Mapping[str, Contestant]
    facts: Callable[[Measured], dict[str, float]] = lambda _: {}


@dataclass(frozen=True)
class RowResult:
    """The measurements of a row.

    Attributes:
        name: The work.
        measured: Measurements by contestant.
        absent: By contestant, why it has no measurement.
        facts: Further figures by name.
    """

    name: str
    measured: Measured
    absent: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def speeds(self) -> dict[str, float]:
        """How many times as fast as the reference each contestant is: the median over rounds."""
        reference = next(iter(self.measured.values()), Measurement(()))
        return {name: ratio(own, reference).median for name, own in self.measured.items()}

    def to_dict(self) -> dict[str, object]:
        """Convert to JSON values: rates are items per second."""
        speeds = self.speeds
        contestants = {
            name: {**own.to_dict(digits=3), "speed": round(speeds[name], 3)}
            for name, own in self.measured.items()
        }
        return {**vars(self), "measured": contestants}


def contestants_of(
    makes: Mapping[str, Callable[[], Callable[[], object]]], items: int
) -> dict[str, Contestant]:
    """Return contestants that call a function repeatedly.

    Args:
        makes: By name, a function that prepares and returns the call; it runs in the contestant's first turn, so a
            contestant whose library is missing is absent.
        items: Number of images per call.
    """

    def repeat(make_once: Callable[[], Callable[[], object]], seconds: float) -> Turn:
        return take_turn(make_once(), seconds=seconds, count=lambda _: items)

    return {name: partial(repeat, cache(make)) for name, make in makes.items()}


def measure_row(
    row: Row, *, seconds: float, rounds: int, progress: Callable[[str], object]
) -> RowResult:
    """Let the contestants of a row take turns, after one uncounted call of each.

    Args:
        row: The work.
        seconds: Measured time per contestant, over all rounds.
        rounds: Turns of each contestant.
        progress: Called with a line of text before every turn.
    """
    absent: dict[str, str] = {}
    measured = measure_in_turns(
        row.contestants,
        seconds=seconds / rounds,
        rounds=rounds,
        warm_up=_ONE_CALL,
        progress=lambda line: progress(f"{row.name}, {line}"),
        on_failure=lambda name, error: absent.update({name: _one_line(error)}),
    )
    return RowResult(row.name, measured, absent, row.facts(measured))


def show_rows(title: str, meaning: str, results: Iterable[RowResult], console: Console) -> None:
    """Print a line for each contestant, and below the table the facts and the reasons for absent ones."""
    table = result_table(title, meaning, "", "time", "range", "speed", "CPU time")
    lines: dict[str, list[str]] = {}
    for result in results:
        table.add_row(Text(result.name, style="bold"))
        fastest = min((own.seconds_per_item for own in result.measured.values()), default=1.0)
        # A unit in which the fastest contestant of a row has a readable number.
        unit, per_second = ("µs", 1e6) if fastest < 1e-3 else ("ms", 1e3)
        for name, own in result.measured.items():
            times = [per_second / rate for rate in own.rates]
            table.add_row(
                f"  {name}",
                f"{_short(per_second * own.seconds_per_item)} {unit}",
                f"{_short(min(times))}-{_short(max(times))}",
                f"{result.speeds[name]:.2f}x",
                f"{_short(per_second * own.cpu_seconds_per_item)} {unit}",
                style="green" if name.startswith("gpu-aug") else "",
            )
        for name, value in result.facts.items():
            lines.setdefault(f"{name}: {_short(value)}", []).append(result.name)
        for name, reason in result.absent.items():
            lines.setdefault(f"{name} is absent: {reason}", []).append(result.name)
    console.print(table)
    for line, names in lines.items():
        print_plain(console, f"{names[0]}{' and others' if names[1:] else ''}: {line}")


def _short(value: float) -> str:
    """Return a number with three digits, or without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:120] if lines else 'no text'}"
