"""``gpu-aug tune``: arguments in, progress and result out."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.cli.execution import INTERRUPTED
from bench.cli.options import TuneOptions
from bench.compare.clips import clip_settings, usual_batch_size, usual_recipe
from bench.output.arguments import check_writable, dtype_from, recipe_from
from bench.output.results import save_result
from bench.output.text import print_plain, wide_console
from bench.tune import tune as tuning_of
from bench.tune.show import show_tuning
from bench.tune.tune import Progress as OnProgress
from dali_pipes.evaluation import random_steps
from dali_pipes.variants import make_variants
from readers import Dataset
from readers.prepare.source import open_at_random

_LOADER_NAMES = {"threads": "num_threads"}
"""Options whose argument of Loader has another name."""


def tune_and_show(
    source: str,
    recipe: str | None,
    asked: TuneOptions,
    *,
    clips: Mapping[str, Any],
    how: Mapping[str, Any],
    aim: Mapping[str, Any],
    json_path: Path | None,
) -> None:
    """Tune a loader over a source, print what was found and write it down.

    Args:
        source: As for `readers.open_dataset`.
        recipe: A preset or a file; None takes the usual one.
        asked: Arguments of the loader.
        clips: Attributes of `bench.compare.clips.ClipSettings`; None for what was not given.
        how: Keyword arguments of `readers.open_dataset`.
        aim: step_ms, images_per_second and seconds of `bench.tune.tune`.
        json_path: Where the result is written as well.

    Raises:
        BenchError: An argument that is not allowed; other errors come from the packages themselves.
        typer.Exit: Ctrl-C; what was found so far is printed.
    """
    check_writable(json_path)
    chosen_clips = clip_settings(source, how, **clips)
    dataset: Dataset = open_at_random(source, **how)
    if chosen_clips is not None:
        dataset = chosen_clips.clips(dataset)
    name = recipe or usual_recipe(chosen_clips)
    made = recipe_from(name)
    settings = _settings(asked, dataset, usual_batch_size(chosen_clips))
    if not random_steps(make_variants(made, None).recipes):
        settings["last_batch"] = "partial"  # as `gpu-aug run` goes through all samples then
    console = wide_console()
    print_plain(
        console,
        f"measuring for about {aim['seconds']:.0f} s; Ctrl-C shows what was found until then",
        "dim",
    )
    with _progress(console) as on_progress:
        found = tuning_of(dataset, made, source=source, on_progress=on_progress, **settings, **aim)
    given = {"recipe": name, **vars(asked), **clips}
    show_tuning(found, console, _command(source, given, how, found.changes))
    told = {**vars(asked), **aim, "data": source, "recipe": name}
    told["source_options"] = {key: str(value) for key, value in how.items()}
    told["clips"] = chosen_clips and vars(chosen_clips)
    rows = [one.to_dict() for one in found.found.tried]
    save_result(json_path, console, "tune", told, rows, tuning=found.to_dict())
    if found.is_interrupted:
        raise typer.Exit(INTERRUPTED)


def _settings(asked: TuneOptions, dataset: Dataset, usual: int) -> dict[str, Any]:
    """Return the arguments of the loader that were given, and its batch size."""
    default = TuneOptions()
    given = {
        _LOADER_NAMES.get(name, name): value
        for name, value in vars(asked).items()
        if value != getattr(default, name)
    }
    if "dtype" in given:
        given["dtype"] = dtype_from(asked.dtype)
    given.setdefault("batch_size", max(1, min(usual, len(dataset))))
    return given


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
    own = {loader: option for option, loader in _LOADER_NAMES.items()}
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


@contextmanager
def _progress(console: Console) -> Iterator[OnProgress]:
    """Show a bar for the time, and what is done now."""
    bar = Progress(
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=1.0)
        yield lambda text, done: bar.update(task, completed=done, description=text)
