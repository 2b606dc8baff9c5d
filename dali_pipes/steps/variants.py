"""Choose the recipe of each step: by epoch (a schedule), by image size (buckets), or by a size that changes."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dali_pipes.errors import LoaderError
from gpu_aug import Recipe
from gpu_aug.expected_recipe import is_pipeline, way_to_recipe
from gpu_aug.schedule import Schedule
from gpu_aug.views import CameraRecipes, Views
from readers.order.buckets import Buckets, Size, checked_sizes
from readers.order.permutation import make_keys
from readers.sample import SelectionError

# Purpose of the random keys that choose sizes: each purpose has its own number, so that their draws are independent.
_SIZES = 10

AnyRecipe = Recipe | Views | Schedule
OfCameras = Mapping[Any, Recipe]
"""The arguments of CameraRecipes."""
RecipeOf = Callable[[Size], AnyRecipe | OfCameras]
"""A function that returns the recipe for an image size (height, width)."""


@dataclass(frozen=True, init=False)
class MultiScale:
    """Multi-scale training: the image size changes to a randomly drawn one at a fixed interval within the epoch.

    The size of a sample is a function of (seed, epoch, position in the epoch // every), for any number of ranks.

    Args:
        sizes: (height, width) each, or one number for a square; all different.
        every: Number of samples, counted over all ranks, between two draws of a size: a multiple of the global batch,
            such as 10 * 64 for every 10 steps of 64.

    Raises:
        SelectionError: A size or `every` is not allowed.

    Example:
        >>> scales = MultiScale([320, 352, (384, 512)], every=10 * 64)
        >>> scales.sizes
        ((320, 320), (352, 352), (384, 512))
        >>> [scales.at(seed=0, epoch=0, position=position) for position in (0, 639, 640, 1280)]
        [1, 1, 1, 0]
    """

    sizes: tuple[Size, ...]
    every: int

    def __init__(self, sizes: Sequence[int | Sequence[int]], *, every: int) -> None:
        given: Any = sizes
        if isinstance(given, list | tuple):
            given = [(one, one) if isinstance(one, int | np.integer) else one for one in given]
        object.__setattr__(self, "sizes", checked_sizes("MultiScale", given))
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise SelectionError(
                f"MultiScale has {every=}; give a number of samples, a multiple of the global batch"
            )
        object.__setattr__(self, "every", int(every))

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, seed: int, epoch: int, position: int) -> int:
        """Return the index in `sizes` of the image size at a position of an epoch."""
        keys = make_keys(seed, epoch, _SIZES, position // self.every)
        return int(keys[0] % np.uint64(len(self.sizes)))


@dataclass(frozen=True)
class Variants:
    """All recipes of a run.

    Attributes:
        schedules: For each size, the recipes by epoch; a single entry if `sizes` is None.
        sizes: The sizes of buckets or of multi-scale training; None if the recipes alone determine the image size.
    """

    schedules: tuple[Schedule, ...]
    sizes: Buckets | MultiScale | None = None

    @cached_property
    def views(self) -> tuple[Views, ...]:
        """The distinct recipes, each with all of its views; a variant is an index into this tuple."""
        recipes = (recipe for schedule in self.schedules for recipe in schedule.recipes)
        return tuple(dict.fromkeys(map(_as_views, recipes)))

    def at(self, epoch: int, size: int = 0) -> int:
        """Return the variant of an epoch for the size with index `size`: an index into `views`."""
        schedule = self.schedules[size]
        return self._by_size[size][bisect_right(schedule.first_epochs, epoch) - 1]

    def sizes_of(self, variant: int) -> list[int]:
        """Return the indices of the sizes that use a variant in some epoch."""
        return [size for size, numbers in enumerate(self._by_size) if variant in numbers]

    @property
    def group(self) -> int:
        """The largest number of neighbouring positions that a recipe mixes: 1, 2 or 4."""
        return max(views.group for views in self.views)

    @property
    def mixing(self) -> Recipe | None:
        """A recipe that mixes the samples of `batch.images`, and so their labels; None if no recipe does."""
        firsts = (views.recipes[0] for views in self.views)
        return next((recipe for recipe in firsts if recipe.group > 1), None)

    @property
    def first(self) -> Recipe:
        """The first recipe, whose formats of boxes and keypoints, and whose classes, apply to all recipes."""
        return self.views[0].recipes[0]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipes of all views of all variants."""
        return tuple(recipe for views in self.views for recipe in views.recipes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex over all recipes and their sizes; for a single recipe, its own fingerprint."""
        prints = [schedule.fingerprint for schedule in self.schedules]
        if self.sizes is None:
            return prints[0]
        kind = (
            f"multi-scale {self.sizes.every}" if isinstance(self.sizes, MultiScale) else "buckets"
        )
        lines = [
            f"{height}x{width}:{fingerprint}"
            for (height, width), fingerprint in zip(self.sizes.sizes, prints, strict=True)
        ]
        return hashlib.sha256(f"{kind}:{','.join(lines)}".encode()).hexdigest()

    @cached_property
    def _by_size(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(self.views.index(_as_views(recipe)) for recipe in schedule.recipes)
            for schedule in self.schedules
        )


def make_variants(recipe: Any, sizes: Buckets | MultiScale | None) -> Variants:
    """Return the recipes of a run.

    Args:
        recipe: A recipe, views, recipes of cameras (also as a dictionary), or a schedule of them; with sizes, a function
            that returns one of these for a size.
        sizes: The sizes, if `recipe` is a function; else None.

    Raises:
        LoaderError: `recipe` has another type, or its images do not have the requested sizes.
        RecipeError: The images can have different sizes, so they form no batch.
    """
    is_function = callable(recipe) and not isinstance(recipe, AnyRecipe) and not is_pipeline(recipe)
    if sizes is None:
        if is_function:
            raise LoaderError(
                "recipe is a function of the size, and no sizes are given; give buckets=Buckets(...) or "
                "sizes=MultiScale(...), or call it: recipe(size); a function on a batch of images is a step, Recipe([function])"
            )
        return Variants((_as_schedule(recipe, "recipe"),))
    name = "buckets" if isinstance(sizes, Buckets) else "sizes"
    if not is_function:
        raise LoaderError(
            f"with {name}= the recipe must be a function of the size (height, width), {_got(recipe)}; "
            f"give lambda size: Recipe([RandomResizedCrop(size), ...])"
        )
    schedules = []
    for size in sizes.sizes:
        schedule = _as_schedule(recipe(size), f"recipe({size})")
        for of_epoch in schedule.recipes:
            made = _as_views(of_epoch).recipes[0].fixed_size
            if made != size:
                raise LoaderError(
                    f"the recipe for the size {size} makes images of {made}; pass the size on, as in "
                    f"lambda size: Recipe([RandomResizedCrop(size), ...])"
                )
        schedules.append(schedule)
    if len({len(_as_views(schedule.recipes[0])) for schedule in schedules}) > 1:
        raise LoaderError(
            "the recipe must have the same number of views for every size: batches have one form"
        )
    return Variants(tuple(schedules), sizes)


def _as_views(recipe: Recipe | Views) -> Views:
    return recipe if isinstance(recipe, Views) else Views([recipe])


def _as_schedule(recipe: Any, name: str) -> Schedule:
    if isinstance(recipe, Mapping):
        recipe = CameraRecipes(recipe)
    if isinstance(recipe, Recipe | Views):
        recipe = Schedule({0: recipe})
    if not isinstance(recipe, Schedule):
        raise LoaderError(
            f"{name} is not a Recipe, {_got(recipe)}; Views([recipe, ...]) are for several pictures of each sample, and "
            f"Schedule({{0: recipe, ...}}) for recipes by epoch"
        )
    for of_epoch in recipe.recipes:
        for view in _as_views(of_epoch).recipes:
            view.fixed_size  # noqa: B018 - it raises if images can have different sizes
    return recipe


def _got(recipe: Any) -> str:
    return (
        f"got {type(recipe).__name__}" if isinstance(recipe, AnyRecipe) else way_to_recipe(recipe)
    )
