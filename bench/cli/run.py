"""``gpu-aug run``."""

from bench.cli.options import AnyRecipe, Data, RunOptions, SampledClipOptions, SourceOptions


def run(
    data: Data,
    *,
    recipe: AnyRecipe = None,
    loader: RunOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
) -> None:
    """Run a loader over DATA, show what it does as it goes, and say what limits it."""
    from bench.cli.run_show import run_epochs
    from bench.compare.clips import clip_settings, usual_recipe

    how = source.asked()
    settings = clip_settings(data, how, **clips.asked())
    run_epochs(data, recipe or usual_recipe(settings), loader, settings, how=how)
