"""Measure, print and write the rows of all small benchmarks; a row compares contestants that do equal work."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from bench.compare.contract import Unable
from bench.output.errors import one_line
from bench.output.text import print_line, result_table, three_digits
from bench.timing import Measurement, Turn, measure_in_turns, ratio, take_turn

Contestant = Callable[[float], Turn]
"""A function that works for the given seconds and returns what it did (a turn)."""

Measured = Mapping[str, Measurement]

# Seconds of the uncounted turn. A turn has at least one call, in which libraries are loaded and functions are compiled.
_ONE_CALL = 1e-9


@dataclass(frozen=True)
class Task:
    """The input of a small benchmark.

    Attributes:
        source: Photographs, as for `readers.open_dataset`.
        folder: An empty folder for files.
        quick: Whether to use tiny inputs, which only show that the benchmark works.
    """

    source: str
    folder: Path
    quick: bool


@dataclass(frozen=True)
class Row:
    """Contestants that do equal work, which are compared in one row.

    Attributes:
        name: Description of the work.
        contestants: The contestants by name; the first one that works here is the reference.
        facts: A function that returns figures by name, derived from the measurements.
    """

    name: str
    contestants: Mapping[str, Contestant]
    facts: Callable[[Measured], dict[str, float]] = lambda _: {}


@dataclass(frozen=True)
class RowResult:
    """The measurements of a row.

    Attributes:
        name: Description of the work.
        measured: Measurements by contestant.
        absent: For each contestant without a measurement, the reason.
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
        """Return the result as values for JSON; rates are items per second."""
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
        makes: For each name, a function that prepares and returns the function to measure. It runs when the contestant
            is first measured, so a contestant whose library is missing is absent.
        items: Count of images per call.
    """

    def repeat(make_once: Callable[[], Callable[[], object]], seconds: float) -> Turn:
        return take_turn(make_once(), seconds=seconds, count=lambda _: items)

    return {name: partial(repeat, cache(make)) for name, make in makes.items()}


def measure_row(
    row: Row,
    *,
    seconds: float,
    rounds: int,
    progress: Callable[[str], object],
    order_seed: int | None = None,
) -> RowResult:
    """Measure the contestants of a row alternately in several rounds, after one uncounted call of each.

    Args:
        row: The row with its contestants.
        seconds: Measured time per contestant in seconds, over all rounds.
        rounds: Count of rounds; in each, every contestant is measured once.
        progress: Called with a line of text before each measurement of a contestant.
        order_seed: Seed of the random order of the contestants in each round; None rotates them.
    """
    absent: dict[str, str] = {}

    def note(name: str, error: Exception) -> None:
        absent[name] = str(error) if isinstance(error, Unable) else one_line(error)

    measured = measure_in_turns(
        row.contestants,
        seconds=seconds / rounds,
        rounds=rounds,
        warm_up=_ONE_CALL,
        order_seed=order_seed,
        progress=lambda line: progress(f"{row.name}, {line}"),
        on_failure=note,
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
                f"{three_digits(per_second * own.seconds_per_item)} {unit}",
                f"{three_digits(min(times))}-{three_digits(max(times))}",
                f"{result.speeds[name]:.2f}x",
                f"{three_digits(per_second * own.cpu_seconds_per_item)} {unit}",
                style="green" if name.startswith("gpu-aug") else "",
            )
        for name, value in result.facts.items():
            lines.setdefault(f"{name}: {three_digits(value)}", []).append(result.name)
        for name, reason in result.absent.items():
            lines.setdefault(f"{name} is absent: {reason}", []).append(result.name)
    console.print(table)
    for line, names in lines.items():
        print_line(f"{names[0]}{' and others' if names[1:] else ''}: {line}", console=console)
