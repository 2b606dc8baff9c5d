"""``gpu-aug tune``: arguments in, progress and result out."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from bench.cli.execution import INTERRUPTED
from bench.cli.loader_arguments import OTHER_NAMES, loader_arguments
from bench.cli.options import SampledClipOptions, SourceOptions, TuneOptions
from bench.output.arguments import check_writable
from bench.output.progress import Bar
from bench.output.results import save_result
from bench.output.text import print_line, wide_console
from bench.tune import tune as tuning_of
from bench.tune.show import show_tuning


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
    """Tune a loader over a source, print what was found and write it down; see `loader_arguments`.

    Args:
        data: As for `readers.open_dataset`.
        recipe: A preset or a file; None takes the usual one.
        asked: Arguments of the loader.
        clips: Which clips of videos.
        source: How the data are opened.
        aim: step_ms, images_per_second and seconds of `bench.tune.tune`.
        json_path: Where the result is written as well.

    Raises:
        BenchError: An argument that is not allowed; other errors come from the packages themselves.
        typer.Exit: Ctrl-C; what was found so far is printed.
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
    given = {"recipe": described["recipe"], **vars(asked), **clips.asked()}
    show_tuning(found, console, _command(data, given, source.asked(), found.changes))
    rows = [one.to_dict() for one in found.found.tried]
    settings = {**described, **aim}
    save_result(json_path, console, "tune", settings, rows, tuning=found.to_dict())
    if found.is_interrupted:
        raise typer.Exit(INTERRUPTED)


def _command(
    source: str, given: Mapping[str, Any], how: Mapping[str, Any], changes: Mapping[str, Any]
) -> str:
    """Return a `gpu-aug run` command with the chosen settings; "" if one of them has no option there.

    Args:
        source: The data.
        given: Options that were given, by name; None for what was not.
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
        # `run` has no helper process unless it is asked for one.
        words += [flag, str(value)] if not isinstance(value, bool) else [flag] * value
    for name, value in how.items():
        is_own = name in ("format", "split")
        words += [f"--{name}", str(value)] if is_own else ["--option", f"{name}={value!r}"]
    return shlex.join(words)
