"""Make the arguments that `gpu-aug run` and `gpu-aug tune` pass to a loader and record in their results."""

from pathlib import Path
from typing import Any

from bench.cli.options import SampledClipOptions, SourceOptions, TuneOptions
from bench.compare.clips import clip_settings, usual_batch_size, usual_recipe
from bench.output.arguments import dtype_from, recipe_from
from dali_pipes.arguments.names import with_settings
from dali_pipes.arguments.recipe import random_steps
from dali_pipes.steps.variants import make_variants
from readers import Dataset
from readers.prepare.source import open_at_random

OTHER_NAMES = {"threads": "num_threads"}
"""Options whose argument of Loader has another name."""


def loader_arguments(
    data: str,
    recipe: str | None,
    asked: TuneOptions,
    clips: SampledClipOptions,
    source: SourceOptions,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Open data; return the keyword arguments of a `Loader`, and a description of them to store with the result.

    Args:
        data: A source as for `readers.open_dataset`.
        recipe: A preset or a file; None uses the default preset.
        asked: The options of the command. Options with their default value are left out of the arguments.
        clips: How clips are taken from videos.
        source: How the data is opened.

    Raises:
        BenchError: An argument is not allowed; other errors come from the packages themselves.
    """
    how = source.asked()
    chosen_clips = clip_settings(data, how, **vars(clips))
    dataset: Dataset = open_at_random(data, **how)
    if chosen_clips is not None:
        dataset = chosen_clips.clips(dataset)
    name = recipe or usual_recipe(chosen_clips)
    made = recipe_from(name)
    given = {
        OTHER_NAMES.get(option, option): getattr(asked, option)
        for option, default in vars(TuneOptions()).items()
        if getattr(asked, option) != default
    }
    if "dtype" in given:
        given["dtype"] = dtype_from(asked.dtype)
    given.setdefault("batch_size", max(1, min(usual_batch_size(chosen_clips), len(dataset))))
    if not random_steps(make_variants(made, None).recipes):
        given["last_batch"] = "partial"  # an evaluation must not leave samples out
    plain = {key: str(of) if isinstance(of, Path) else of for key, of in vars(asked).items()}
    described = {
        **plain,
        "clips": chosen_clips and vars(chosen_clips),
        "source_options": {key: str(value) for key, value in how.items()},
        "data": data,
        "recipe": name,
    }
    return {"dataset": dataset, "recipe": made, **with_settings({}, given)}, described
