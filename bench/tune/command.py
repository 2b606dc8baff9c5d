"""Tuning as a command: arguments in, progress and result out."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.cli.arguments import check_writable, dtype_from, recipe_from
from bench.cli.options import TuneOptions
from bench.output.results import save_result
from bench.output.text import wide_console
from bench.tune.show import show_tuning
from bench.tune.tune import Tell, tune
from bench.tune.tuning import Tuning
from bench.video.clips import clip_settings, usual_batch_size, usual_recipe
from dali_pipes.evaluation import random_steps
from dali_pipes.variants import make_variants
from readers import Dataset
from readers.prepare.source import open_at_random

_INTERRUPTED = 130  # the exit code of what Ctrl-C ended


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
    """Tune a loader over a source; print what was found, and write it down.

    Args:
        source: As for `readers.open_dataset`.
        recipe: A preset or a file; None takes the usual one.
        asked: Arguments of the loader.
        clips: Attributes of `bench.video.clips.ClipSettings`; None for what was not asked for.
        how: Keyword arguments of `readers.open_dataset`.
        aim: step_ms, images_per_second and seconds of `bench.tune.tune`.
        json_path: Where the result goes as well.

    Raises:
        BenchError: An argument that cannot work; other errors come from the packages themselves.
        typer.Exit: Somebody ended it; what was found so far is printed.
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
    with _progress(console) as tell:
        found = tune(dataset, recipe_from(name), source=source, on_progress=tell, **settings, **aim)
    show_tuning(found, console)
    told = {**vars(asked), **aim, "data": source, "recipe": name}
    told["source_options"] = {key: str(value) for key, value in how.items()}
    told["clips"] = chosen_clips and vars(chosen_clips)
    save_result(json_path, console, "tune", told, _rows(found), tuning=found.to_dict())
    if found.interrupted:
        raise typer.Exit(_INTERRUPTED)


def _settings(asked: TuneOptions, dataset: Dataset, usual: int) -> dict[str, Any]:
    """Arguments of the loader: what was asked for, and no more."""
    size = asked.batch_size
    if size is None:
        size = max(1, min(usual, len(dataset)))
    own = TuneOptions()
    renamed = {"threads": "num_threads"}
    given = {
        renamed.get(name, name): value
        for name, value in vars(asked).items()
        if value != getattr(own, name)
    }
    if "dtype" in given:
        given["dtype"] = dtype_from(asked.dtype)
    return {**given, "batch_size": size}


@contextmanager
def _progress(console: Console) -> Iterator[Tell]:
    """A bar for the time, and what is done now."""
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


def _rows(found: Tuning) -> list[dict[str, object]]:
    return [
        {"name": one.name, f"{found.unit}_per_second": one.rate.to_dict(), "factor": one.factor}
        for one in found.tried
        if one.rate.runs
    ]
