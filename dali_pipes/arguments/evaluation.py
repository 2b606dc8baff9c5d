"""What an evaluation needs of a loader's arguments, and what is likely a mistake: training's arguments for one."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.steps.streams.order import StreamOrder
from dali_pipes.steps.streams.steps import AnySteps
from dali_pipes.steps.variants import Variants
from dali_pipes.video.clips import Clips
from gpu_aug import Recipe
from gpu_aug.ops import Operation
from gpu_aug.ops.foreign.foreign import Foreign
from readers import Dataset
from readers.order import AnyOrder

_NOT_FOR_EVALUATION = {
    "shuffle": "an evaluation goes through the dataset in its own order",
    "shuffle_window": "an evaluation goes through the dataset in its own order",
}


def require_options(last_batch: str, options: Mapping[str, Any]) -> None:
    """Refuse what would leave samples out of an evaluation, or take some twice.

    Raises:
        LoaderError: The text says what to leave out.
    """
    for name, why in _NOT_FOR_EVALUATION.items():
        if name in options:
            raise LoaderError(
                f"{name}={options[name]!r} is not for Loader.eval: {why}; leave it out, or use Loader(...)"
            )
    if last_batch == "drop":
        raise LoaderError(
            'last_batch="drop" is not for Loader.eval, which leaves no sample out; give "partial" or "pad"'
        )
    if options.get("on_bad_sample") == "replace":
        raise LoaderError(
            'on_bad_sample="replace" is not for Loader.eval, in which other samples would count twice; give "raise", or '
            '"skip", with which the bad ones are left out and named in loader.bad_samples'
        )


def require_all_once(dataset: Dataset, order: AnyOrder) -> None:
    """Refuse a dataset that says itself how often each sample comes.

    Raises:
        LoaderError: It is a mixture by weights, or balanced.
    """
    if isinstance(order, StreamOrder):
        if order.stream.samples_per_epoch is not None:
            raise LoaderError(
                "samples_per_epoch ends an epoch there, whatever the stream has, and Loader.eval takes each sample "
                'once; leave it out, and on several ranks open the stream with divide="samples"'
            )
        return
    if order.name.partition(" ")[0] != "none":  # the shuffle, in front of the buckets
        raise LoaderError(
            f"{type(dataset).__name__} says itself how often each sample comes, and Loader.eval takes each once; "
            f"evaluate on the datasets that it is made of"
        )


def random_steps(recipes: Sequence[Recipe]) -> list[Operation]:
    """Return the operations of recipes that draw numbers, also those that could but happen not to."""
    return [step for recipe in recipes for step in recipe.operations if any(step.slots)]


def warn_of_draws(variants: Variants) -> None:
    """Warn of an evaluation on pictures that are drawn at random."""
    # What steps of other libraries do is not known.
    names = [
        type(step).__name__
        for step in random_steps(variants.recipes)
        if not isinstance(step, Foreign)
    ]
    if names:
        warnings.warn(
            f"the recipe of an evaluation draws at random ({', '.join(dict.fromkeys(names))}), so that every loop has "
            f"other pictures; use one that does not, such as Recipe.imagenet_eval()",
            stacklevel=3,
        )


def warn_of_training(
    dataset: Dataset, variants: Variants, order: AnyOrder, steps: AnySteps, *, stacklevel: int
) -> None:
    """Warn where a recipe for evaluation is shuffled and loses samples, as the arguments for training do."""
    left_out = steps.left_out
    if isinstance(order, StreamOrder) or not left_out or order.name.partition(" ")[0] == "none":
        return
    if random_steps(variants.recipes) or isinstance(dataset, Clips):
        return
    warnings.warn(
        f"the recipe draws nothing at random, as for an evaluation, but this loader shuffles, and leaves "
        f"{left_out} of {steps.length} samples out of each epoch; to evaluate, use Loader.eval(dataset, recipe, "
        f'batch_size=...), to train, say last_batch="partial" or "pad"',
        stacklevel=stacklevel,
    )
