"""Fill in the labels that a mirror exchanges where a recipe leaves them to the dataset."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.steps.variants import Variants
from gpu_aug import KeypointParams, Recipe, Schedule, Views
from gpu_aug.ops.geometric.spatial import Moving
from gpu_aug.targets.flip_pairs import is_permutation
from readers import Dataset
from readers.datasets.origin import sources_of
from readers.formats.boxes.dataset import AnnotatedDataset
from readers.formats.coco.dataset import CocoDataset
from readers.labels.flip_pairs import FlipPairs, pairs_of_names

_MOST_NAMES = 8  # in an error, to keep it readable


def with_flip_pairs(variants: Variants, dataset: Dataset, kinds: Collection[str]) -> Variants:
    """Return the recipes with the flip pairs of the dataset.

    "names" becomes the pairs of classes whose names differ only in left and right, and names of classes or keypoints become
    their numbers. If a recipe may mirror images and says nothing of keypoints, those of the data take effect. They are part of
    the recipes' fingerprint.

    Args:
        variants: The recipes of the run.
        dataset: The dataset, which knows names and pairs.
        kinds: Kinds of targets that are read.

    Raises:
        LoaderError: No class names differ in left and right only, the datasets of a mixture have different pairs, or a recipe
            names labels that the data lacks.
    """
    changes: dict[str, dict[Any, Any]] = {kind: {} for kind in kinds}
    for recipe in variants.recipes:
        for kind, params in recipe.target_params.items():
            if kind in kinds and params.flip_pairs == "names":
                changes[kind]["names"] = _pairs_of_classes(dataset, kind)
            elif kind in kinds and params.flip_pairs:
                changes[kind][params.flip_pairs] = _numbered(dataset, kind, params.flip_pairs)
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
        changes["keypoints"] |= dict.fromkeys([None][: len(found)], *found)
    if not any(changes.values()):
        return variants
    schedules = [_changed_schedule(schedule, changes) for schedule in variants.schedules]
    return replace(variants, schedules=tuple(schedules))


def _pairs_of_classes(dataset: Dataset, kind: str) -> FlipPairs:
    """Return the pairs of classes of boxes or masks whose names differ only in left and right."""
    names = _names_of_sources(dataset, kind)
    found = {*map(pairs_of_names, names)}
    pairs = found.pop()
    if found or pairs is None:
        reason = "datasets of the mixture have different ones" if found else f"they are {names[0]}"
        raise LoaderError(
            f"flip_pairs='names' of {kind} needs class names that differ only in left and right, and {reason}: give pairs of "
            "class numbers, such as flip_pairs=[(0, 1)]"
        )
    return pairs


def _names_of_sources(dataset: Dataset, kind: str) -> list[Sequence[str]]:
    """Return the names of the labels of a kind of targets, of each dataset that has some; at least one list."""
    field = {"boxes": "class_names", "masks": "mask_names", "keypoints": "keypoint_names"}[kind]
    # A selection may know class names that its source lacks.
    own, selected = (
        [getattr(one, field, () if kind == "keypoints" else one.class_names) for one in group]
        for group in (sources_of(dataset), [dataset])
    )
    return list(filter(None, own)) or selected


def _numbered(dataset: Dataset, kind: str, flip_pairs: Any) -> Any:
    """Return flip pairs with the numbers of classes or keypoints in place of their names.

    Raises:
        LoaderError: The data has no such name or number, or a name has different numbers in the datasets of a mixture.
    """
    names: list[Sequence[Any]] = _names_of_sources(dataset, kind)
    pairs = [flip_pairs] if is_permutation(flip_pairs) else flip_pairs
    by_name = isinstance(pairs[0][0], str)
    if not by_name:
        # Class names of other datasets may be those of images, and masks may have more values than names.
        is_known = kind == "keypoints" or all(
            isinstance(source, AnnotatedDataset | CocoDataset) for source in sources_of(dataset)
        )
        if kind == "masks" or not is_known or not any(names):
            return flip_pairs
        names = [range(max(map(len, names)))]
    numbered = {
        tuple(tuple(own.index(label) if label in own else -1 for label in pair) for pair in pairs)
        for own in names
    }
    found = numbered.pop()
    if numbered or -1 in chain.from_iterable(found):
        raise LoaderError(
            f"flip_pairs of {kind} must be labels of the data, and names must have one number in all datasets of a mixture, got "
            f"{flip_pairs}: give some of {list(names[0][:_MOST_NAMES])}{' and so on' * (len(names[0]) > _MOST_NAMES)}"
        )
    return found if by_name else flip_pairs


def _changed_schedule(schedule: Schedule, changes: dict[str, dict[Any, Any]]) -> Schedule:
    recipes = [
        Views([_changed(recipe, changes) for recipe in of_epoch.recipes])
        if isinstance(of_epoch, Views)
        else _changed(of_epoch, changes)
        for of_epoch in schedule.recipes
    ]
    return Schedule(dict(zip(schedule.first_epochs, recipes, strict=True)))


def _changed(recipe: Recipe, changes: dict[str, dict[Any, Any]]) -> Recipe:
    """Return the recipe with the flip pairs that take the place of its own."""
    params: dict[str, Any] = {"keypoints": KeypointParams()} | recipe.target_params
    found = {
        kind: replace(params[kind], flip_pairs=pairs[params[kind].flip_pairs])
        for kind, pairs in changes.items()
        if kind in params and params[kind].flip_pairs in pairs
    }
    return Recipe(recipe.operations, **(recipe.target_params | found), output=recipe.output)
