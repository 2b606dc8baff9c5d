"""Fill in the labels that a mirror exchanges where a recipe leaves them to the dataset."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.steps.variants import Variants
from gpu_aug import KeypointParams, Recipe, Schedule, Views
from gpu_aug.ops.geometric.spatial import Moving
from readers import Dataset
from readers.datasets.origin import sources_of
from readers.labels.flip_pairs import FlipPairs, pairs_of_names


def with_flip_pairs(variants: Variants, dataset: Dataset, kinds: Collection[str]) -> Variants:
    """Return the recipes with the flip pairs of the dataset.

    "names" becomes the pairs of classes whose names differ only in left and right. If a recipe may mirror images and says
    nothing of keypoints, those of the data take effect. They are part of the recipes' fingerprint.

    Args:
        variants: The recipes of the run.
        dataset: The dataset, which knows names and pairs.
        kinds: Kinds of targets that are read.

    Raises:
        LoaderError: No class names differ in left and right only, or the datasets of a mixture have different pairs.
    """
    changes: dict[str, FlipPairs] = {}
    for kind in ("boxes", "masks"):
        given = [getattr(recipe, kind) for recipe in variants.recipes]
        if kind in kinds and any(one is not None and one.flip_pairs == "names" for one in given):
            changes[kind] = _pairs_of_classes(dataset, kind)
    mirrors = any(
        isinstance(leaf, Moving) and leaf.may_mirror
        for recipe in variants.recipes
        for leaf in recipe.leaves
    )
    params = [recipe.keypoints or KeypointParams() for recipe in variants.recipes]
    if "keypoints" in kinds and mirrors and any(one.flip_pairs is None for one in params):
        declared = [getattr(source, "flip_pairs", None) for source in sources_of(dataset)]
        found = list(dict.fromkeys(pairs for pairs in declared if pairs is not None))
        if len(found) > 1:
            raise LoaderError(
                f"the datasets of the mixture have different flip_pairs, {' and '.join(map(str, found))}, so that a label of "
                "keypoints means different ones: give the recipe KeypointParams(flip_pairs=[...]) for all of them, or () for "
                "no exchange"
            )
        changes |= dict.fromkeys(["keypoints"][: len(found)], *found)
    if not changes:
        return variants
    schedules = [_changed_schedule(schedule, changes) for schedule in variants.schedules]
    return replace(variants, schedules=tuple(schedules))


def _pairs_of_classes(dataset: Dataset, kind: str) -> FlipPairs:
    """Return the pairs of classes of boxes or masks whose names differ only in left and right."""
    own = [
        getattr(source, "mask_names", source.class_names) if kind == "masks" else source.class_names
        for source in sources_of(dataset)
    ]
    # A selection may know class names that its source lacks.
    names = list(filter(None, own)) or [dataset.class_names]
    found = {*map(pairs_of_names, names)}
    pairs = found.pop()
    if found or pairs is None:
        reason = "datasets of the mixture have different ones" if found else f"they are {names[0]}"
        raise LoaderError(
            f"flip_pairs='names' of {kind} needs class names that differ only in left and right, and {reason}: give pairs of "
            "class numbers, such as flip_pairs=[(0, 1)]"
        )
    return pairs


def _changed_schedule(schedule: Schedule, changes: dict[str, FlipPairs]) -> Schedule:
    recipes = [
        Views([_changed(recipe, changes) for recipe in of_epoch.recipes])
        if isinstance(of_epoch, Views)
        else _changed(of_epoch, changes)
        for of_epoch in schedule.recipes
    ]
    return Schedule(dict(zip(schedule.first_epochs, recipes, strict=True)))


def _changed(recipe: Recipe, changes: dict[str, FlipPairs]) -> Recipe:
    """Return the recipe with flip pairs where it leaves them to the dataset."""
    params: dict[str, Any] = {"keypoints": KeypointParams()} | recipe.target_params
    open_ones = {"keypoints": None, "boxes": "names", "masks": "names"}
    found = {
        kind: replace(params[kind], flip_pairs=pairs)
        for kind, pairs in changes.items()
        if kind in params and params[kind].flip_pairs == open_ones[kind]
    }
    return Recipe(recipe.operations, **(recipe.target_params | found), output=recipe.output)
