"""Checks of the arguments for an evaluation, and a warning of an evaluation with the arguments of a training."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from dali_pipes.arguments.values import refuse
from dali_pipes.steps.streams.order import StreamOrder
from dali_pipes.steps.streams.steps import AnySteps
from dali_pipes.steps.variants import MultiScale, Variants
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe
from gpu_aug.ops import Operation
from gpu_aug.ops.foreign.foreign import Foreign
from readers import Dataset
from readers.order.shuffle import AnyOrder


def require_options(last_batch: str, options: Mapping[str, Any]) -> None:
    """Refuse what would leave samples out of an evaluation, or take some twice.

    Raises:
        LoaderError: The text says what to leave out.
    """
    refuse(
        (
            "shuffle" in options,
            f"shuffle={options.get('shuffle')!r} is not for Loader.eval: an evaluation goes through the dataset in its own "
            "order; leave it out, or use Loader(...)",
        ),
        (
            last_batch == "drop",
            'last_batch="drop" is not for Loader.eval, which leaves no sample out; give "partial" or "pad"',
        ),
        (
            options.get("on_bad_sample") == "replace",
            'on_bad_sample="replace" is not for Loader.eval, in which other samples would count twice; give "raise", or '
            '"skip", with which the bad ones are left out and named in loader.bad_samples',
        ),
    )


def check_evaluation(dataset: Dataset, order: AnyOrder, variants: Variants) -> None:
    """Refuse an evaluation in which samples come twice or recipes change, and warn of one that draws at random.

    Raises:
        LoaderError: The dataset has an order of its own, as a mixture by weights has, or sizes or recipes change.
    """
    is_stream = isinstance(order, StreamOrder)
    refuse(
        (
            is_stream and order.stream.samples_per_epoch is not None,
            "samples_per_epoch ends an epoch there, whatever the stream has, and Loader.eval takes each sample "
            'once; leave it out, and on several ranks open the stream with divide="samples"',
        ),
        (
            # The name of the shuffle stands before the buckets.
            not is_stream and not order.name.startswith("none"),
            f"{type(dataset).__name__} says itself how often each sample comes, and Loader.eval takes each once; "
            f"evaluate on the datasets that it is made of",
        ),
        (
            isinstance(variants.sizes, MultiScale),
            "sizes= is not for Loader.eval, in which all images have one size: leave it out",
        ),
        (
            any(len(schedule) > 1 for schedule in variants.schedules),
            "a Schedule is not for Loader.eval, in which every loop is the same; give the recipe of an evaluation",
        ),
    )
    # Whether operations of other libraries draw at random is unknown.
    drawing = [
        type(step).__name__
        for step in random_steps(variants.recipes)
        if not isinstance(step, Foreign)
    ]
    if drawing:
        warnings.warn(
            f"the recipe of an evaluation draws at random ({', '.join(dict.fromkeys(drawing))}), so that every loop has "
            f"other pictures; use one that does not, such as Recipe.imagenet_eval()",
            stacklevel=3,
        )


def random_steps(recipes: Sequence[Recipe]) -> list[Operation]:
    """Return the operations of recipes that draw numbers, including those whose ranges are empty."""
    return [step for recipe in recipes for step in recipe.operations if any(step.slots)]


def warn_of_training(
    dataset: Dataset, variants: Variants, order: AnyOrder, steps: AnySteps, *, stacklevel: int
) -> None:
    """Warn if a recipe that draws nothing is shuffled and samples are left out, as in a training."""
    is_meant = (
        isinstance(order, StreamOrder)
        or isinstance(dataset, Clips)
        or order.name.startswith("none")
        or bool(random_steps(variants.recipes))
    )
    if steps.left_out and not is_meant:
        warnings.warn(
            f"the recipe draws nothing at random, as for an evaluation, but this loader shuffles, and leaves "
            f"{steps.left_out} of {steps.length} samples out of each epoch; to evaluate, use Loader.eval(dataset, recipe, "
            f'batch_size=...), to train, say last_batch="partial" or "pad"',
            stacklevel=stacklevel,
        )
