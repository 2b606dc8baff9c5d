"""Checks of the recipe against other arguments: images, boxes, labels, training or evaluation."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch

from dali_pipes.arguments.values import refuse
from dali_pipes.errors import LoaderError
from dali_pipes.steps.streams.order import StreamOrder
from dali_pipes.steps.streams.steps import AnySteps
from dali_pipes.steps.variants import MultiScale, Variants
from dali_pipes.video.clips import Clips
from gpu_aug import Normalize, Recipe
from gpu_aug.image_kind import ImageKind
from gpu_aug.ops import Operation
from gpu_aug.ops.foreign.foreign import Foreign
from gpu_aug.targets.soft_labels import class_count
from gpu_aug.targets.targets import BoxParams
from readers import Dataset, Sample
from readers.datasets.first_samples import probed_samples
from readers.datasets.stream import is_stream
from readers.labels.label_vector import class_number, described, label_shape_of
from readers.order.shuffle import AnyOrder
from readers.sample import mask_number

_NUM_PROBED = 8  # samples that are read for a warning: two requests
_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)
"""Types that finished images can have."""


def require_fits(variants: Variants, kind: ImageKind, dtype: torch.dtype) -> None:
    """Check that the recipes support the stored images and the dtype of the batch, and that views agree on labels.

    Args:
        variants: All recipes of the run.
        kind: Channels and depth of the stored images.
        dtype: Type of the finished images.

    Raises:
        LoaderError: The dtype is not possible, or recipes contradict each other.
        gpu_aug.RecipeError: An operation does not support such images; the message names it.
    """
    first, is_uint8 = variants.first, dtype == torch.uint8
    recipes = [recipe for views in variants.views for recipe in views.recipes]
    main_views = [views.recipes[0] for views in variants.views]
    refuse(
        (
            dtype not in _DTYPES,
            f"dtype={dtype!r} is not supported; allowed are {', '.join(map(str, _DTYPES))}",
        ),
        (
            is_uint8 and kind.depth != 8,
            f"dtype=torch.uint8 cannot hold images of depth={kind.depth!r}; use a floating dtype",
        ),
        (
            is_uint8 and any(isinstance(leaf, Normalize) for one in recipes for leaf in one.leaves),
            "dtype=torch.uint8 cannot hold normalised values, and the recipe has Normalize; leave Normalize out, or use "
            "a floating dtype",
        ),
        (
            any(one.target_params != first.target_params for one in main_views),
            "the recipes of a run say different things of boxes, keypoints or masks, which a batch has in one form; give "
            "all recipes the same boxes=, keypoints= and masks=",
        ),
        (
            any(one.needs_boxes and _box_form(one) != _box_form(first) for one in recipes),
            "a view has a crop that looks at boxes, which are read in the format of the first recipe, and its own boxes= has "
            "another format; give all recipes the same boxes=",
        ),
        (
            any(recipe.group > 1 for views in variants.views for recipe in views.recipes[1:]),
            "a view after the first mixes samples, but the labels of a batch are those of its first view; mix in the "
            "first view alone, or give the loader one recipe",
        ),
    )
    for recipe in recipes:
        kind.require_fits(recipe.operations)


def _box_form(recipe: Recipe) -> tuple[str, bool]:
    """Return the form in which a recipe reads boxes: its format, and whether coordinates are shares."""
    params = recipe.boxes or BoxParams()
    return params.format, params.normalized


def require_boxes(
    recipes: Sequence[Recipe], dataset: Dataset, kinds: Collection[str], *, is_clips: bool
) -> None:
    """Raise if a recipe looks at boxes that the loader does not read; warn if the data seems to have none.

    Raises:
        LoaderError: The samples are clips, or the boxes are not among the targets.
    """
    looking = [leaf for recipe in recipes for leaf in recipe.leaves if leaf.needs_boxes]
    if not looking:
        return
    name = type(looking[0]).__name__
    refuse(
        (
            is_clips,
            f"{name} looks at boxes, which clips do not have: take it out of the recipe",
        ),
        (
            "boxes" not in kinds,
            f'{name} looks at boxes, and targets={sorted(kinds)} leaves them out; add "boxes", or take it out of the recipe',
        ),
    )
    samples = [] if is_stream(dataset) else list(probed_samples(dataset, _NUM_PROBED))
    if samples and not any("json" in sample.fields for sample in samples):
        warnings.warn(
            f"{name} looks at boxes, but the data seems to have none ({samples[-1].key} has not), so that it treats all "
            f"images as those without boxes; open data with boxes, or take it out of the recipe",
            stacklevel=5,
        )


def find_num_classes(recipes: Sequence[Recipe], dataset: Dataset) -> int | None:
    """Return the count of classes, which mixed labels need; None if nothing is mixed or samples have no labels.

    For labels that are vectors, the result is their length.

    Args:
        recipes: The run's recipes whose mixing determines the labels.
        dataset: The dataset, which knows its class names.

    Raises:
        LoaderError: Samples with labels are mixed, and the count of classes is unknown or contradictory; or label
            vectors have several lengths, or a length other than the count of classes.
    """
    mixing = [recipe for recipe in recipes if recipe.group > 1]
    if not mixing:
        return None
    counts = sorted({count for recipe in mixing if (count := class_count(recipe))})
    given = counts[0] if counts else 0
    shape = label_shape_of(dataset)
    refuse(
        (
            len(counts) > 1,
            f"the recipes of the run have {' and '.join(map(str, counts))} classes; give all of them one num_classes",
        ),
        (
            shape is None,
            "the recipe mixes samples, and with them their labels, but the labels are vectors of several lengths; use a "
            "recipe that mixes nothing, or give all labels one length",
        ),
        (
            bool(shape and given) and shape != (given,),
            f"num_classes={given} in the recipe is not the length of the labels, which are {described(shape)}; correct "
            "it, or leave it out",
        ),
    )
    if shape:
        return shape[0]
    count = given or len(dataset.class_names)
    if count == 0:
        _require_unlabelled(mixing[0], dataset)
    return count or None


def _require_unlabelled(recipe: Recipe, dataset: Dataset) -> None:
    """Raise if a few samples have labels, which cannot be mixed without a count of classes; warn if none has a label.

    Raises:
        LoaderError: A sample has a label.
    """
    samples = [] if is_stream(dataset) else list(probed_samples(dataset, _NUM_PROBED))
    if not samples or any(class_number(sample.label) != -1 for sample in samples):
        raise no_class_count(recipe)
    if not any(map(_may_have_targets, samples)):
        warnings.warn(
            f"{_mixing_name(recipe)} mixes samples with their labels, but the data seems to have none "
            f"({samples[-1].key} has not), so that batch.labels is -1 throughout; give labels, "
            f"open_dataset(..., labels=...), or a recipe that mixes nothing",
            stacklevel=6,
        )


def no_class_count(recipe: Recipe) -> LoaderError:
    """Return the error for labels that are mixed although the count of classes is unknown."""
    name = _mixing_name(recipe)
    return LoaderError(
        f"{name} mixes labels, and neither the recipe nor the dataset says how many classes there are; "
        f"give it, as in {name}(num_classes=1000)"
    )


def _mixing_name(recipe: Recipe) -> str:
    return next(type(leaf).__name__ for leaf in recipe.leaves if leaf.group > 1)


def _may_have_targets(sample: Sample) -> bool:
    """Return whether a sample may have boxes or masks, which have labels of their own."""
    return any(name == "json" or mask_number(name) is not None for name in sample.fields)


def require_evaluation_options(last_batch: str, options: Mapping[str, Any]) -> None:
    """Raise if an option would leave samples out of an evaluation, or repeat samples.

    Raises:
        LoaderError: An option does so; the message names the option to remove.
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
    """Raise if an evaluation would repeat samples or change recipes; warn if it draws at random.

    Raises:
        LoaderError: The dataset has its own order, like a weighted mixture, or image sizes or recipes change.
    """
    stream = order.stream if isinstance(order, StreamOrder) else None
    refuse(
        (
            stream is not None and stream.samples_per_epoch is not None,
            "samples_per_epoch ends an epoch there, whatever the stream has, and Loader.eval takes each sample "
            'once; leave it out, and on several ranks open the stream with divide="samples"',
        ),
        (
            # The name of an order starts with the shuffle, followed by the buckets.
            stream is None and not order.name.startswith("none"),
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
    # It is unknown whether operations of other libraries draw at random.
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
    """Return the operations that draw random numbers, even if their ranges allow only one value."""
    return [step for recipe in recipes for step in recipe.operations if any(step.slots)]


def warn_of_training(
    dataset: Dataset, variants: Variants, order: AnyOrder, steps: AnySteps, *, stacklevel: int
) -> None:
    """Warn if a loader looks like an evaluation with training options.

    That is so if the recipe has no random operation, but samples are shuffled and some are left out.
    """
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
