"""Checks of the recipe against the other arguments: type and kind of the images, boxes, labels."""

import warnings
from collections.abc import Sequence

import torch

from dali_pipes.errors import LoaderError
from dali_pipes.steps.variants import Variants
from gpu_aug import Normalize, Recipe
from gpu_aug.image_kind import ImageKind
from gpu_aug.targets.soft_labels import class_count
from readers import Dataset, Sample
from readers.datasets.first_samples import probed_samples
from readers.datasets.stream import is_stream
from readers.labels.label_vector import LabelShape, class_number, label_shape_of
from readers.sample import mask_number

_NUM_PROBED = 8  # samples that a warning rests on: two requests
_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)


def require_fits(variants: Variants, kind: ImageKind, dtype: torch.dtype) -> None:
    """Refuse recipes that do not accept such images, a type that cannot hold the result, and views with other labels.

    Args:
        variants: All recipes of the run.
        kind: Channels and depth of the stored images.
        dtype: Type of the finished images.

    Raises:
        LoaderError: The type, or recipes that contradict each other.
        gpu_aug.RecipeError: An operation that does not accept such images, by name.
    """
    if dtype not in _DTYPES:
        names = ", ".join(str(allowed) for allowed in _DTYPES)
        raise LoaderError(f"dtype={dtype!r} is not supported; allowed are {names}")
    if dtype == torch.uint8 and kind.depth != 8:
        raise LoaderError(
            f"dtype=torch.uint8 cannot hold images of depth={kind.depth!r}; use a floating dtype"
        )
    first = variants.first
    for views in variants.views:
        _require_same_coordinates(views.recipes[0], first)
        if any(recipe.group > 1 for recipe in views.recipes[1:]):
            raise LoaderError(
                "a view after the first mixes samples, but the labels of a batch are those of its first "
                "view; mix in the first view alone, or give the loader one recipe"
            )
        for recipe in views.recipes:
            kind.require_fits(recipe.operations)
            if dtype == torch.uint8 and any(isinstance(leaf, Normalize) for leaf in recipe.leaves):
                raise LoaderError(
                    "dtype=torch.uint8 cannot hold normalised values, and the recipe has Normalize; leave "
                    "Normalize out, or use a floating dtype"
                )


def _require_same_coordinates(recipe: Recipe, first: Recipe) -> None:
    if (recipe.boxes, recipe.keypoints) != (first.boxes, first.keypoints):
        raise LoaderError(
            "the recipes of a run say different things of boxes or keypoints, which a batch has in one form; give "
            "all recipes the same boxes= and keypoints="
        )


def find_num_classes(recipes: Sequence[Recipe], dataset: Dataset) -> int | None:
    """Return the number of classes of mixed labels; None if nothing is mixed, or samples have no labels.

    For labels that are vectors it is their length.

    Args:
        recipes: The run's recipes that make labels.
        dataset: Knows the names of the classes.

    Raises:
        LoaderError: Samples with labels are mixed, and the number of classes is unknown or contradictory, or labels are
            vectors of another length, or of several.
    """
    mixing = [recipe for recipe in recipes if recipe.group > 1]
    if not mixing:
        return None
    counts = sorted({count for recipe in mixing if (count := class_count(recipe))})
    if len(counts) > 1:
        raise LoaderError(
            f"the recipes of the run have {counts[0]} and {counts[1]} classes; give all of them one num_classes"
        )
    shape = label_shape_of(dataset)
    if shape != ():
        return _vector_length(counts, shape)
    count = counts[0] if counts else len(dataset.class_names)
    unlabelled = [] if is_stream(dataset) else _probe_unlabelled(dataset)
    # With a class count the first batch with a label is refused; a few samples without one prove nothing.
    if unlabelled and not count and not any(map(_may_have_targets, unlabelled)):
        warnings.warn(
            f"{_mixing_name(mixing[0])} mixes samples with their labels, but the data seems to have none "
            f"({unlabelled[-1].key} has not), so that batch.labels is -1 throughout; give labels, "
            f"open_dataset(..., labels=...), or a recipe that mixes nothing",
            stacklevel=5,
        )
    if count or unlabelled:
        return count or None
    raise no_class_count(mixing[0])


def no_class_count(recipe: Recipe) -> LoaderError:
    """Return the error for labels that are mixed although the number of classes is unknown."""
    name = _mixing_name(recipe)
    return LoaderError(
        f"{name} mixes labels, and neither the recipe nor the dataset says how many classes there are; "
        f"give it, as in {name}(num_classes=1000)"
    )


def _mixing_name(recipe: Recipe) -> str:
    return next(type(leaf).__name__ for leaf in recipe.leaves if leaf.group > 1)


def _probe_unlabelled(dataset: Dataset) -> list[Sample]:
    """Return a few readable samples if none of them has a label; else nothing."""
    unlabelled = []
    for sample in probed_samples(dataset, _NUM_PROBED):  # nearly always the first one ends it
        if class_number(sample.label) != -1:
            return []
        unlabelled.append(sample)
    return unlabelled


def _may_have_targets(sample: Sample) -> bool:
    """Whether a sample may have boxes or masks, which bring labels of their own."""
    return any(name == "json" or mask_number(name) is not None for name in sample.fields)


def _vector_length(counts: Sequence[int], shape: LabelShape) -> int:
    """Return the length of the label vectors; `counts` has the number of classes that the recipes name, if any."""
    if shape is None:
        raise LoaderError(
            "the recipe mixes samples, and with them their labels, but the labels are vectors of several lengths; use a "
            "recipe that mixes nothing, or give all labels one length"
        )
    if counts and counts[0] != shape[0]:
        raise LoaderError(
            f"num_classes={counts[0]} in the recipe is not the length of the labels, which are vectors of {shape[0]} numbers; "
            "correct it, or leave it out"
        )
    return shape[0]
