"""``gpu-aug tune``."""

from typing import Annotated

import typer

from bench.cli.options import AnyRecipe, Data, Json, SampledClipOptions, SourceOptions, TuneOptions


def tune(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    step_ms: Annotated[
        float | None, typer.Option(help="How long a training step takes, in milliseconds.")
    ] = None,
    images_per_second: Annotated[
        float | None,
        typer.Option(help="What the training asks for, instead of --step-ms; clips for videos."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="About how long to measure.")] = 60.0,
    loader: TuneOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
    json: Json = None,
) -> None:
    """Find out what limits a loader over DATA, and what to change."""
    from bench.tune.command import tune_and_show

    tune_and_show(
        data,
        recipe,
        loader,
        clips=clips.asked(),
        how=source.asked(),
        aim={"step_ms": step_ms, "images_per_second": images_per_second, "seconds": seconds},
        json_path=json,
    )
