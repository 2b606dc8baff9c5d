"""Run ``gpu-aug tune``: parse arguments, show progress, print and write the result."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from bench.cli.execution import INTERRUPTED
from bench.cli.loader_arguments import OTHER_NAMES, loader_arguments
from bench.cli.options import SampledClipOptions, SourceOptions, TuneOptions
from bench.output.arguments import check_writable
from bench.output.progress import Bar
from bench.output.results import save_result
from bench.output.text import Row, print_line, print_table, three_digits, wide_console
from bench.timing import Ratio
from bench.tune import tune as tuning_of
from bench.tune.limits import TRAINING_STEP, Stages
from bench.tune.result import Tuning
from dali_pipes.arguments.names import spelled
from dali_pipes.monitoring.stats import ENOUGH_WAITING

# If unchanged settings become this many times as fast, the reason is a cache, not noise.
_MUCH = 2.0


def tune_and_show(
    data: str,
    recipe: str | None,
    asked: TuneOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
    *,
    aim: Mapping[str, Any],
    json_path: Path | None,
) -> None:
    """Tune a loader over a source, print the result and write it to a file.

    Args:
        data: A source as for `readers.open_dataset`.
        recipe: A preset or a file; None uses the default preset.
        asked: Arguments of the loader.
        clips: How clips are taken from videos.
        source: How the data is opened.
        aim: The arguments step_ms, images_per_second and seconds of `bench.tune.tune`.
        json_path: A file that also gets the result; None writes no file.

    Raises:
        BenchError: An argument is not allowed; other errors come from the packages themselves.
        typer.Exit: On Ctrl-C; the results so far are printed.
    """
    check_writable(json_path)
    arguments, described = loader_arguments(data, recipe, asked, clips, source)
    console = wide_console()
    seconds = f"{aim['seconds']:.0f} s"
    print_line(f"measuring for about {seconds}; Ctrl-C shows what was found until then", "dim")
    columns = (TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bar(console, BarColumn(bar_width=24), *columns) as bar:
        found = tuning_of(
            **arguments, source=data, on_progress=lambda text, done: bar(done, 1.0, text), **aim
        )
    given = {"recipe": described["recipe"], **vars(asked), **vars(clips)}
    show_tuning(found, console, _command(data, given, source.asked(), found.changes))
    rows = [one.to_dict() for one in found.found.tried]
    settings = {**described, **aim}
    save_result(json_path, console, "tune", settings, rows, tuning=found.to_dict())
    if found.is_interrupted:
        raise typer.Exit(INTERRUPTED)


def _command(
    source: str, given: Mapping[str, Any], how: Mapping[str, Any], changes: Mapping[str, Any]
) -> str:
    """Return a `gpu-aug run` command with the chosen settings; "" if a setting has no option.

    Args:
        source: The data, as the user gave it.
        given: The user's options by name; None for options that were not given.
        how: Keyword arguments of `readers.open_dataset`.
        changes: Arguments of Loader to change.
    """
    own = {loader: option for option, loader in OTHER_NAMES.items()}
    default = vars(TuneOptions())
    options = {
        name: value for name, value in given.items() if value not in (None, default.get(name))
    }
    options |= {own.get(name, name): value for name, value in changes.items()}
    if not options.keys() <= {*given, "helper_process"}:
        return ""
    words = ["gpu-aug", "run", source]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        # `run` uses helper processes only if the option is given.
        words += [flag, str(value)] if not isinstance(value, bool) else [flag] * value
    for name, value in how.items():
        is_own = name in ("format", "split")
        words += [f"--{name}", str(value)] if is_own else ["--option", f"{name}={value!r}"]
    return shlex.join(words)


def show_tuning(tuning: Tuning, console: Console, command: str = "") -> None:
    """Print the bottleneck, the trials, the result, and what else would help.

    Args:
        tuning: The result of tuning.
        console: The console to print on.
        command: A command with the chosen settings, to print; "" prints none.
    """
    _show_limit(tuning, tuning.given, "What limits with your settings", console)
    for name, reason in tuning.not_measured.items():
        print_line(f"{name} was not measured: {reason}", "dim")
    found = tuning.found
    if found.tried or found.failed:
        _heading(console, f"What was tried, {tuning.unit}/s, each with the best before it in turns")
    if found.tried:
        _show_trials(tuning, console)
    for name, reason in found.failed.items():
        print_line(f"{name} cannot be used: {reason}", "dim")
    if found.left_out:
        names = "; ".join(found.left_out)
        console.print(Text(f"no time was left for: {names} (give more --seconds)", style="dim"))
    _heading(console, "Result")
    for sentence in conclusion(tuning):
        console.print(Text(sentence, style="bold"))
    if tuning.changes:
        print_line(f"\n{tuning.as_python()}\n{command}".rstrip())
    if tuning.recommended:
        _show_limit(
            tuning, tuning.recommended, "What limits with the recommended settings", console
        )
    if tuning.help and not _is_enough(tuning):
        _heading(console, "What else would help")
        for sentence in tuning.help:
            console.print(Text(f"- {sentence}"))


def conclusion(tuning: Tuning) -> Iterator[str]:
    """Yield sentences about what to change and what to expect."""
    before, after = tuning.result
    check = tuning.found.check
    early = "Interrupted before the end. " if tuning.is_interrupted else ""
    if tuning.changes:
        unconfirmed = "" if check else ", not yet measured a second time"
        gain = _times(tuning.last_trial.gain)
        yield (
            f"{early}{spelled(tuning.changes)} makes it {gain} as fast{unconfirmed}: {three_digits(before.median)} "
            f"{tuning.unit}/s before, {three_digits(after.median)} after."
        )
    elif check is not None:
        yield (
            f"{early}Nothing helps: {spelled(check.settings)} seemed faster, but measured once more it was "
            f"{_times(check.gain)} as fast, which is no clear gain."
        )
    elif tuning.limit.stage == TRAINING_STEP:
        yield f"{early}Nothing to gain: the loader is fast enough for the training step."
    else:
        yield f"{early}Nothing that was tried helps: the settings are as good as any."
    if check is not None and check.before.median > _MUCH * tuning.base.median:
        yield (
            f"The unchanged settings make {three_digits(check.before.median)} {tuning.unit}/s by now, "
            f"{three_digits(tuning.base.median)} at first: data that were read lie in a cache."
        )
    if tuning.step_rate is not None:
        waits = f"waits {before.wait_share:.0%} of its time"
        if tuning.changes:
            waits += f" before and {after.wait_share:.0%} after"
        yield (
            f"The training step takes {three_digits(tuning.step_rate)} {tuning.unit}/s at most, gets {three_digits(after.median)} and "
            f"{waits}."
        )


def _is_enough(tuning: Tuning) -> bool:
    return tuning.step_rate is not None and tuning.result[1].wait_share < ENOUGH_WAITING


def _times(gain: Ratio) -> str:
    return f"{gain.median:.2f} times ({min(gain.runs):.2f} to {max(gain.runs):.2f} in {len(gain.runs)} rounds)"


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}", style="cyan", highlight=False)


def _show_limit(tuning: Tuning, stages: Stages, title: str, console: Console) -> None:
    _heading(console, title)
    console.print(Text(stages.limit.sentence, style="bold"))
    rows = [
        (
            name,
            three_digits(one.median),
            f"{three_digits(min(one.rates))}-{three_digits(max(one.rates))}",
        )
        for name, one in stages.alone.items()
    ]
    if tuning.step_rate is not None:
        rows.append(("the training step", three_digits(tuning.step_rate), ""))
    print_table(("alone", f">{tuning.unit}/s", ">range"), rows, console=console)


def _show_trials(tuning: Tuning, console: Console) -> None:
    has_step, check = tuning.step_rate is not None, tuning.found.check
    columns = ("setting", ">before", ">after", ">gain", ">range", *[">waits"] * has_step, ">")
    trials = [(spelled(one.settings), one) for one in tuning.found.tried]
    trials += [("all that were kept, once more", check)] if check else []
    rows: list[Row] = []
    for name, one in trials:
        rates, gain = (three_digits(one.before.median), three_digits(one.after.median)), one.gain
        runs = f"{min(gain.runs):.2f}-{max(gain.runs):.2f}"
        waits = [f"{one.before.wait_share:.0%} to {one.after.wait_share:.0%}"] * has_step
        kept = "kept" if one.is_kept else ""
        rows.append((name, *rates, f"{gain.median:.2f}", runs, *waits, kept))
    if check:
        rows.insert(-1, ())
    print_table(columns, rows, console=console)
