"""``gpu-aug bench compare``."""

from typing import Annotated

import typer

from bench.cli import options
from bench.cli.options import AnyRecipe, Data, FrameOptions, Json, SourceOptions


def compare(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    seconds: Annotated[float, typer.Option(help="Measured time per pipeline, in all.")] = 10.0,
    rounds: Annotated[int, typer.Option(help="Turns per pipeline that the time is cut into.")] = 5,
    batch_size: options.BatchSize = None,
    frames: FrameOptions,
    source: SourceOptions,
    device: options.Device = "auto",
    threads: options.Threads = None,
    seed: options.Seed = 0,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="bfloat16 or float32; default bfloat16 for images, as people train, and float32 for clips."
        ),
    ] = None,
    peers: Annotated[
        list[str] | None,
        typer.Option(
            metavar="all|none|NAME",
            help="Baselines, repeatable; what is missing is installed into .peers/. When left out, those that are "
            "installed.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only the row of this name; repeatable.")
    ] = None,
    json: Json = None,
) -> None:
    """Compare every engine of ours with other pipelines, in turns, on the same files."""
    from bench.compare.clips import clip_settings, usual_batch_size, usual_dtype, usual_recipe
    from bench.compare.compare import Settings
    from bench.compare.report import compare_and_show

    how = source.asked()
    clips = clip_settings(data, how, **frames.asked())
    settings = Settings(
        seconds=seconds,
        rounds=rounds,
        batch_size=usual_batch_size(clips) if batch_size is None else batch_size,
        device=device,
        num_threads=threads,
        seed=seed,
        only=tuple(only or ()),
        dtype=dtype or usual_dtype(clips),
        peers=tuple(peers or ()),
        clips=clips,
        how=how,
    )
    compare_and_show(data, recipe or usual_recipe(clips), settings, json_path=json)
