"""``gpu-aug run``."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import AnyRecipe, Data, Json, RunOptions, SampledClipOptions, SourceOptions


def run(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    loader: RunOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
    step_ms: Annotated[
        float | None,
        typer.Option(
            help="Play a training step of so many milliseconds: sleep, as a CPU does while a GPU computes."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="Write the run's statistics every second, and its bad samples, as lines of JSON."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write when each thread did what, for Perfetto and chrome://tracing; .gz compresses it."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Run a loader over DATA, show what it does as it goes, and say what limits it."""
    from bench.cli.run_show import Watching, run_epochs
    from bench.compare.clips import clip_settings, usual_recipe

    how = source.asked()
    settings = clip_settings(data, how, **clips.asked())
    watching = Watching(step_ms, log, trace, json)
    run_epochs(data, recipe or usual_recipe(settings), loader, settings, how=how, watching=watching)
