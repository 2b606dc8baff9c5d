"""What tuning found, on a terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.compare.timer import Rate
from bench.output.text import plain_table, print_plain
from bench.tune.advice import Advice
from bench.tune.bound import Bound
from bench.tune.bound_resources import CORES
from bench.tune.tuning import Tried, Tuning
from bench.tune.words import doing, number

_ALTERS = {"": "", "pixels": "other pixels", "order": "another order"}
_PARTS = {"hand_over": "handing over"}
_MOST_ADVICE = 5
_SHOWN = 0.02  # smaller shares of the cores' time are not worth a line


_TIMES = (
    "times: the middle of the ratios to the defaults in the same rounds; rates of different rounds are no measure of each "
    "other, for the machine's pace changes"
)


def show_tuning(found: Tuning, console: Console) -> None:
    """Print what was found: ceilings, what limits, what was tried, what would help, and the settings."""
    if found.bound is not None:
        _heading(console, f"What each part gives alone, {found.unit}/s")
        console.print(_ceilings(found.bound))
    _heading(console, "What limits")
    _sentence(console, found.bottleneck, "bold")
    if found.doubt:
        _sentence(console, found.doubt, "yellow")
    _heading(console, f"What was tried, {found.unit}/s")
    console.print(_tried(found))
    _sentence(console, _TIMES, "dim")
    _untried(found, console)
    if found.advice:
        _heading(console, "What would help")
        _advice(found, console)
    _heading(console, "Settings")
    _sentence(console, conclusion(found), "bold")
    print_plain(console, "\n" + found.as_python() + "\n")
    console.print("as YAML, for Loader(dataset, recipe, **settings):", style="dim", highlight=False)
    print_plain(console, found.as_yaml().rstrip())


def conclusion(found: Tuning) -> str:
    """What to change and what to expect, in a sentence."""
    unit, rate = found.unit, f"{_range(found.expected)} {found.unit}/s"
    early = "So far (interrupted): " if found.interrupted else ""
    if not found.changes:
        why = "nothing that was tried beats them by more than the spread of the rounds"
        if found.enough:
            why = "the training step does not wait for them"
        return f"{early}The defaults are as good: {why}; expect {rate}."
    names = ", ".join(f"{name}={value!r}" for name, value in found.changes.items())
    if found.enough:
        return (
            f"{early}{names} is enough and the cheapest that is: expect {rate}; without a training step it makes "
            f"{number(found.makes)} {unit}/s."
        )
    times = next(one.factor for one in found.tried if one.name == names)
    return f"{early}{names} gives {times:.2f} times the {unit}/s of the defaults: expect {rate}."


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="cyan", highlight=False)


def _sentence(console: Console, text: str, style: str) -> None:
    console.print(Text(text, style=style))


def _range(rate: Rate) -> str:
    low, high = number(min(rate.runs)), number(max(rate.runs))
    return number(rate.median) if low == high else f"{number(rate.median)} ({low} to {high})"


def _ceilings(bound: Bound) -> Table:
    table = plain_table()
    table.add_column("part", no_wrap=True)
    table.add_column("at most", justify="right", no_wrap=True)
    table.add_column("because", overflow="fold")
    for resource in bound.resources:
        name = _PARTS.get(resource.name, resource.name)
        table.add_row(name, number(resource.images_per_second), Text(resource.why))
        if resource.name == CORES:
            shown = [(stage, share) for stage, share in bound.shares.items() if share >= _SHOWN]
            for stage, share in shown:
                table.add_row(f"  {doing([stage])}", "", f"{share:.0%} of that time")
    return table


def _tried(found: Tuning) -> Table:
    table = plain_table()
    table.add_column("settings", overflow="fold")
    table.add_column("rate", justify="right", no_wrap=True)
    table.add_column("range", justify="right", no_wrap=True)
    table.add_column("times", justify="right", no_wrap=True)
    if found.wanted is not None:
        table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in sorted(found.tried, key=lambda one: -one.factor):
        if one.rate.runs:
            table.add_row(*_row(one, found))
    return table


def _row(one: Tried, found: Tuning) -> list[Text | str]:
    low, high = number(min(one.rate.runs)), number(max(one.rate.runs))
    cells: list[Text | str] = [
        Text(one.name),
        number(one.rate.median),
        f"{low}-{high}",
        f"{one.factor:.2f}",
    ]
    if found.wanted is not None:
        cells.append(f"{one.wait_share:.0%}")
    remark = _ALTERS[one.alters] or ("faster" if one.better else "")
    return [*cells, remark]


def _untried(found: Tuning, console: Console) -> None:
    for name, reason in found.absent.items():
        print_plain(console, f"{name} cannot be used: {reason}", "dim")
    if found.left_out:
        _sentence(
            console,
            f"left out for want of time: {'; '.join(found.left_out)} (give --seconds more)",
            "dim",
        )


def _advice(found: Tuning, console: Console) -> None:
    """Each change with its factor on a line, and below it how that is known."""
    console.print()
    for one in found.advice[:_MOST_ADVICE]:
        makes = found.makes_before * one.factor
        rate = f"{number(makes)} {found.unit}/s"
        if found.wanted is not None and makes > found.wanted:
            rate += f", where the training needs {number(found.wanted)}"
        alters = f" ({_ALTERS[one.alters]})" if one.alters else ""
        line = Text(f" {one.factor:.2f} times, {rate}: ", style="bold")
        console.print(line.append(one.change + alters, style="not bold"))
        console.print(Padding(Text(_why(one), style="dim"), (0, 0, 0, 4)))


def _why(one: Advice) -> str:
    if one.measured:
        return f"{one.why}: {one.low:.2f} to {one.high:.2f} times"
    return f"expected, not tried: {one.why}"
