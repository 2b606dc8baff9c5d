"""``gpu-aug run``."""

from bench.cli.options import AnyRecipe, Data, Format, Json, RunOptions, SampledClipOptions


def run(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    loader: RunOptions,
    clips: SampledClipOptions,
    format: Format = None,
    json: Json = None,
) -> None:
    """Run a loader over DATA, show its speed as it goes, and sum up."""
    from bench.cli.run_show import run_epochs
    from bench.video.clips import clip_settings, usual_recipe

    settings = clip_settings(data, format, **clips.asked())
    run_epochs(
        data, recipe or usual_recipe(settings), loader, settings, format=format, json_path=json
    )
