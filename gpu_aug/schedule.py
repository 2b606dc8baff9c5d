"""Schedule: a recipe for each range of epochs."""

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from gpu_aug.argument_errors import FriendlyArgumentErrors
from gpu_aug.errors import RecipeError
from gpu_aug.expected_recipe import require_recipe
from gpu_aug.files.document import write_document
from gpu_aug.files.limits import MAX_PIXELS
from gpu_aug.recipe import FORMAT_VERSION, Recipe
from gpu_aug.views import Views


@dataclass(frozen=True, init=False)
class Schedule(metaclass=FriendlyArgumentErrors):
    """A recipe for each range of epochs, such as one without Mosaic for the last epochs.

    Args:
        recipes: Recipes, or Views, by the epoch from which each is used, counted from 0. There must be one for epoch 0, and
            all must have equally many views.

    Raises:
        RecipeError: There are no recipes, a value is not a recipe, an epoch is invalid, or there is no recipe for epoch 0.

    Example:
        >>> train = Recipe([RandomResizedCrop(64), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()])
        >>> plain = Recipe([RandomResizedCrop(64), Normalize()])
        >>> schedule = Schedule({0: train, 290: plain})
        >>> schedule.at(289) == train, schedule.at(290) == plain
        (True, True)
    """

    first_epochs: tuple[int, ...]
    recipes: tuple[Recipe | Views, ...]

    def __init__(self, recipes: Mapping[int, Recipe | Views]) -> None:
        if not isinstance(recipes, Mapping) or not recipes:
            raise RecipeError(
                f"a schedule must be a dictionary of epochs and recipes, got {recipes!r}: write "
                "Schedule({0: first, 100: second})"
            )
        for epoch, recipe in recipes.items():
            if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer) or epoch < 0:
                raise RecipeError(
                    f"the epochs of a schedule must be whole numbers from 0, got {epoch!r}: give the epoch from "
                    "which on a recipe is used"
                )
            require_recipe(recipe, Recipe, Views, name=f"the recipe from epoch {epoch} on")
        epochs = sorted(recipes)
        if epochs[0] != 0:
            raise RecipeError(
                f"a schedule must say which recipe epoch 0 has, but its first is for epoch {epochs[0]}: begin with 0"
            )
        object.__setattr__(self, "first_epochs", tuple(int(epoch) for epoch in epochs))
        object.__setattr__(self, "recipes", tuple(recipes[epoch] for epoch in epochs))
        numbers = [_num_views(recipe) for recipe in self.recipes]
        if len(set(numbers)) > 1:
            raise RecipeError(
                f"the recipes of a schedule must all have the same number of views, got {numbers}: a training loop "
                "gets one form of batches"
            )

    def __len__(self) -> int:
        return len(self.recipes)

    def at(self, epoch: int) -> Recipe | Views:
        """Return the recipe, or the views, of an epoch; epochs count from 0."""
        return self.recipes[bisect_right(self.first_epochs, epoch) - 1]

    def explain(self, device: str = "cpu", *, exact: bool = False) -> str:
        """Return text about how the fused engine carries out each recipe; see Recipe.explain."""
        return "\n".join(
            f"from epoch {epoch}: {recipe.explain(device=device, exact=exact)}"
            for epoch, recipe in zip(self.first_epochs, self.recipes, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the schedule as plain values, ready for JSON."""
        parts = [{k: v for k, v in one.to_dict().items() if k != "version"} for one in self.recipes]
        return {
            "version": FORMAT_VERSION,
            "schedule": [
                {"from_epoch": epoch, **part}
                for epoch, part in zip(self.first_epochs, parts, strict=True)
            ],
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the schedule as YAML if the path ends with .yaml or .yml, and as JSON otherwise."""
        write_document(self.to_dict(), path)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the epochs and the recipes' fingerprints; with a single recipe, the fingerprint of that recipe."""
        if len(self) == 1:
            return self.recipes[0].fingerprint
        parts = zip(self.first_epochs, self.recipes, strict=True)
        prints = ",".join(f"{epoch}:{recipe.fingerprint}" for epoch, recipe in parts)
        return hashlib.sha256(f"schedule:{prints}".encode()).hexdigest()

    @staticmethod
    def load(
        path: str | PathLike[str],
        *,
        functions: Mapping[str, Any] | None = None,
        max_pixels: float = MAX_PIXELS,
    ) -> "Schedule":
        """Return the schedule of a file that ``save`` wrote or that was written by hand.

        A file with a single recipe is a schedule, too.

        Args:
            path: Path of a YAML or JSON file; see gpu_aug.files.schema.
            functions: The functions and modules that the file names, by name, because files hold no code.
            max_pixels: Largest image that an operation may make, also in the middle of a recipe, in pixels.

        Raises:
            RecipeError: The file is missing or holds no schedule; the text begins with ``file:line``.
        """
        from gpu_aug.files.schema import load_schedule  # which imports this module

        return load_schedule(path, functions=functions, max_pixels=max_pixels)

    @classmethod
    def from_dict(cls, saved: Any) -> "Schedule":
        """Return the schedule that a dictionary from ``to_dict`` describes.

        Raises:
            RecipeError: The version is another one, an operation is unknown, or a field is invalid.
        """
        from gpu_aug.files.schema import from_dict  # which imports this module

        return from_dict(cls, saved)

    def transform(self, seed: int | None = None, **options: Any) -> Any:
        """Return the schedule as a callable, which needs ``set_epoch``; see `gpu_aug.Transform` for the options."""
        from gpu_aug.transform import ScheduleTransform  # which imports this module

        return ScheduleTransform(self, seed, **options)


def _num_views(recipe: Recipe | Views) -> int:
    return len(recipe) if isinstance(recipe, Views) else 1
