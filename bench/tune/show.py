"""What tuning found, on a terminal."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.output.text import plain_table, print_plain
from bench.timing import Ratio
from bench.tune.candidates import name_of
from bench.tune.limits import TRAINING_STEP
from bench.tune.result import Tuning
from bench.tune.search import Tried
from dali_pipes.stats.stats import ENOUGH_WAITING

_MUCH = 2.0


def show_tuning(tuning: Tuning, console: Console, command: str = "") -> None:
    """Print what limits, what was tried, the result and what else would help.

    Args:
        tuning: What was found.
        console: Where it is printed.
        command: A command with the chosen settings; "" for none.
    """
    _heading(console, "What limits")
    console.print(Text(tuning.limit.sentence, style="bold"))
    console.print(_stages(tuning))
    for name, reason in tuning.not_measured.items():
        print_plain(console, f"{name} was not measured: {reason}", "dim")
    if tuning.found.tried or tuning.found.failed:
        _heading(console, f"What was tried, {tuning.unit}/s, each with the best before it in turns")
    if tuning.found.tried:
        console.print(_trials(tuning))
    for name, reason in tuning.found.failed.items():
        print_plain(console, f"{name} cannot be used: {reason}", "dim")
    if tuning.found.left_out:
        names = "; ".join(tuning.found.left_out)
        console.print(Text(f"no time was left for: {names} (give more --seconds)", style="dim"))
    _heading(console, "Result")
    for sentence in conclusion(tuning):
        console.print(Text(sentence, style="bold"))
    if tuning.changes:
        print_plain(console, "\n" + tuning.as_python())
        if command:
            print_plain(console, command)
    if tuning.help and not _is_enough(tuning):
        _heading(console, "What else would help")
        for sentence in tuning.help:
            console.print(Text(f"- {sentence}"))


def conclusion(tuning: Tuning) -> Iterator[str]:
    """Yield what to change and what to expect, a sentence each."""
    before, after = tuning.result
    check, early = (
        tuning.found.check,
        "Interrupted before the end. " if tuning.is_interrupted else "",
    )
    if tuning.changes:
        gain = check.gain if check else [one for one in tuning.found.tried if one.is_kept][-1].gain
        unconfirmed = "" if check else ", not yet measured a second time"
        yield (
            f"{early}{name_of(tuning.changes)} makes it {_times(gain)} as fast{unconfirmed}: {number(before.median)} "
            f"{tuning.unit}/s before, {number(after.median)} after."
        )
    elif check is not None:
        yield (
            f"{early}Nothing helps: {name_of(check.settings)} seemed faster, but measured once more it was "
            f"{_times(check.gain)} as fast, which is no clear gain."
        )
    elif tuning.limit.stage == TRAINING_STEP:
        yield f"{early}Nothing to gain: the loader is fast enough for the training step."
    else:
        yield f"{early}Nothing that was tried helps: the settings are as good as any."
    if check is not None and check.before.median > _MUCH * tuning.base.median:
        yield (
            f"The unchanged settings make {number(check.before.median)} {tuning.unit}/s by now, "
            f"{number(tuning.base.median)} at first: data that were read lie in a cache."
        )
    if tuning.step_rate is not None:
        waits = f"waits {before.wait_share:.0%} of its time"
        if tuning.changes:
            waits += f" before and {after.wait_share:.0%} after"
        yield (
            f"The training step takes {number(tuning.step_rate)} {tuning.unit}/s at most, gets {number(after.median)} and "
            f"{waits}."
        )


def number(rate: float) -> str:
    """Return a rate with three digits or more, such as 1,150, 85.3 or 0.27."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _is_enough(tuning: Tuning) -> bool:
    return tuning.step_rate is not None and tuning.result[1].wait_share < ENOUGH_WAITING


def _times(gain: Ratio) -> str:
    return f"{gain.median:.2f} times ({min(gain.runs):.2f} to {max(gain.runs):.2f} in {len(gain.runs)} rounds)"


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="cyan", highlight=False)


def _stages(tuning: Tuning) -> Table:
    table = plain_table()
    table.add_column("alone", no_wrap=True)
    table.add_column(f"{tuning.unit}/s", justify="right", no_wrap=True)
    table.add_column("range", justify="right", no_wrap=True)
    for name, one in tuning.stages.items():
        table.add_row(
            name, number(one.median), f"{number(min(one.rates))}-{number(max(one.rates))}"
        )
    if tuning.step_rate is not None:
        table.add_row("the training step", number(tuning.step_rate), "")
    return table


def _trials(tuning: Tuning) -> Table:
    table = plain_table()
    table.add_column("setting", overflow="fold")
    for heading in ("before", "after", "gain", "range"):
        table.add_column(heading, justify="right", no_wrap=True)
    has_step = tuning.step_rate is not None
    if has_step:
        table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for one in tuning.found.tried:
        table.add_row(*_row(one, name_of(one.settings), has_step))
    if tuning.found.check is not None:
        table.add_section()
        table.add_row(*_row(tuning.found.check, "all that were kept, once more", has_step))
    return table


def _row(tried: Tried, name: str, has_step: bool) -> list[Text | str]:
    gain = tried.gain
    waits = [f"{tried.before.wait_share:.0%} to {tried.after.wait_share:.0%}"] if has_step else []
    return [
        Text(name),
        number(tried.before.median),
        number(tried.after.median),
        f"{gain.median:.2f}",
        f"{min(gain.runs):.2f}-{max(gain.runs):.2f}",
        *waits,
        "kept" if tried.is_kept else "",
    ]
