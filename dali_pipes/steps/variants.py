"""The recipes of a run, by size and by epoch, and which of them makes a step."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dali_pipes.errors import LoaderError
from dali_pipes.steps.multi_scale import MultiScale
from gpu_aug import Recipe
from gpu_aug.expected_recipe import is_pipeline, way_to_recipe
from gpu_aug.schedule import Schedule
from gpu_aug.views import Views
from readers.buckets import Buckets, Size

AnyRecipe = Recipe | Views | Schedule
RecipeOf = Callable[[Size], AnyRecipe]
"""Returns the recipe for a size (height, width)."""


@dataclass(frozen=True)
class Variants:
    """All recipes of a run.

    Attributes:
        schedules: The recipes by epoch, for each size; without sizes there is one entry.
        sizes: What says which size a step has; None where a recipe has one of its own.
    """

    schedules: tuple[Schedule, ...]
    sizes: Buckets | MultiScale | None = None

    @cached_property
    def views(self) -> tuple[Views, ...]:
        """The recipes that are different, as views; a variant is a place in it."""
        return tuple(self._numbers)

    def at(self, epoch: int, size: int = 0) -> int:
        """Return the variant of an epoch for the size of a number."""
        schedule = self.schedules[size]
        return self._by_size[size][bisect_right(schedule.first_epochs, epoch) - 1]

    def sizes_of(self, variant: int) -> list[int]:
        """Return the numbers of the sizes that have a variant in some epoch."""
        return [size for size, numbers in enumerate(self._by_size) if variant in numbers]

    @property
    def group(self) -> int:
        """The most neighbouring positions that are mixed: 1, 2 or 4."""
        return max(views.group for views in self.views)

    @property
    def mixing(self) -> Recipe | None:
        """A recipe that mixes the samples of `batch.images`, and so their labels, if there is one."""
        firsts = (views.recipes[0] for views in self.views)
        return next((recipe for recipe in firsts if recipe.group > 1), None)

    @property
    def first(self) -> Recipe:
        """The first recipe; what it says of boxes, keypoints and classes holds for all."""
        return self.views[0].recipes[0]

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipes of all views of all variants."""
        return tuple(recipe for views in self.views for recipe in views.recipes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex over all recipes and what chooses them; one recipe alone keeps its own."""
        prints = [schedule.fingerprint for schedule in self.schedules]
        if self.sizes is None:
            return prints[0]
        kind = (
            f"multi-scale {self.sizes.every}" if isinstance(self.sizes, MultiScale) else "buckets"
        )
        lines = [
            f"{height}x{width}:{one}"
            for (height, width), one in zip(self.sizes.sizes, prints, strict=True)
        ]
        return hashlib.sha256(f"{kind}:{','.join(lines)}".encode()).hexdigest()

    @cached_property
    def _numbers(self) -> dict[Views, int]:
        found: dict[Views, int] = {}
        for schedule in self.schedules:
            for recipe in schedule.recipes:
                found.setdefault(_as_views(recipe), len(found))
        return found

    @cached_property
    def _by_size(self) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(self._numbers[_as_views(recipe)] for recipe in schedule.recipes)
            for schedule in self.schedules
        )


def make_variants(recipe: Any, sizes: Buckets | MultiScale | None) -> Variants:
    """Return the recipes of a run.

    Args:
        recipe: A recipe, views, or a schedule of them; where there are sizes a function that returns one for a size.
        sizes: The sizes, if it is a function.

    Raises:
        LoaderError: It is something else, or makes images of other sizes.
        RecipeError: Its images can have different sizes and make no batch.
    """
    function = callable(recipe) and not isinstance(recipe, AnyRecipe) and not is_pipeline(recipe)
    if sizes is None:
        if function:
            raise LoaderError(
                "recipe is a function, and nothing says for which sizes; give buckets=Buckets(...) or "
                "sizes=MultiScale(...), or call it: recipe(size); a function on a batch of images is a step, Recipe([function])"
            )
        return Variants((_as_schedule(recipe, "recipe"),))
    name = "buckets" if isinstance(sizes, Buckets) else "sizes"
    if not function:
        raise LoaderError(
            f"with {name}= the recipe must be a function of the size (height, width), {_got(recipe)}; "
            f"give lambda size: Recipe([RandomResizedCrop(size), ...])"
        )
    schedules = []
    for size in sizes.sizes:
        made = _as_schedule(recipe(size), f"recipe({size})")
        for one in made.recipes:
            _require_size(_as_views(one).recipes[0], size)
        schedules.append(made)
    if len({(len(_as_views(one.recipes[0]))) for one in schedules}) > 1:
        raise LoaderError(
            "the recipe must have the same number of views for every size; a training loop gets one form of batches"
        )
    return Variants(tuple(schedules), sizes)


def _as_views(recipe: Recipe | Views) -> Views:
    return recipe if isinstance(recipe, Views) else Views([recipe])


def _as_schedule(recipe: Any, name: str) -> Schedule:
    if isinstance(recipe, Recipe | Views):
        recipe = Schedule({0: recipe})
    if not isinstance(recipe, Schedule):
        raise LoaderError(
            f"{name} is not a Recipe, {_got(recipe)}; Views([recipe, ...]) are for several pictures of each sample, and "
            f"Schedule({{0: recipe, ...}}) for recipes by epoch"
        )
    for one in recipe.recipes:
        for view in _as_views(one).recipes:
            view.fixed_size  # noqa: B018 - raises
    return recipe


def _got(recipe: Any) -> str:
    return (
        f"got {type(recipe).__name__}" if isinstance(recipe, AnyRecipe) else way_to_recipe(recipe)
    )


def _require_size(recipe: Recipe, size: Size) -> None:
    if recipe.fixed_size != size:
        raise LoaderError(
            f"the recipe for the size {size} makes images of {recipe.fixed_size}; hand the size on, as in "
            f"lambda size: Recipe([RandomResizedCrop(size), ...])"
        )
