"""Views: several recipes for several images of the same sample."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_aug.argument_errors import FriendlyArgumentErrors
from gpu_aug.draws import Draws
from gpu_aug.errors import RecipeError
from gpu_aug.expected_recipe import require_recipe, way_to_recipe
from gpu_aug.files.document import write_document
from gpu_aug.recipe import FORMAT_VERSION, Recipe


@dataclass(frozen=True, init=False)
class Views(metaclass=FriendlyArgumentErrors):
    """Several images of every sample, each with its own recipe, as in multi-crop training.

    Every view has its own draws, even if two recipes are equal. The frames of a clip are drawn once for all views.

    Raises:
        RecipeError: There are no recipes, a value is not a recipe, or the recipes have different temporal operations.

    Example:
        >>> view = Recipe([RandomResizedCrop(96), ColorJitter(0.4, 0.4, 0.4, 0.1), Normalize()])
        >>> len(Views([view, view]))
        2
    """

    recipes: tuple[Recipe, ...]

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        if not isinstance(recipes, Sequence):
            raise RecipeError(f"views must be a list of recipes, {way_to_recipe(recipes)}")
        object.__setattr__(self, "recipes", tuple(recipes))
        if not self.recipes:
            raise RecipeError(f"views must be a list of at least one Recipe, got {recipes!r}")
        for number, recipe in enumerate(self.recipes):
            require_recipe(recipe, Recipe, name=f"view {number}")
        if len({recipe.temporal_operations for recipe in self.recipes}) > 1:
            raise RecipeError(
                "views must all have the same operations on the time of clips, for they are made of the "
                f"same frames, got {[recipe.temporal_operations for recipe in self.recipes]}: give all "
                "recipes those of the first"
            )

    def __len__(self) -> int:
        return len(self.recipes)

    @property
    def group(self) -> int:
        """Number of neighbouring positions of the epoch's order whose images are mixed: 1, 2 or 4."""
        return max(recipe.group for recipe in self.recipes)

    @property
    def needs_boxes(self) -> bool:
        """Whether the draws of a view depend on the boxes of the samples."""
        return any(recipe.needs_boxes for recipe in self.recipes)

    def draw(
        self,
        seed: int,
        epoch: int,
        indices: NDArray[np.int64],
        sizes: NDArray[np.int64],
        *,
        positions: NDArray[np.int64] | None = None,
        length: int | None = None,
        boxes: Sequence[Any] | None = None,
    ) -> tuple[Draws, ...]:
        """Return the draws of each view; see Recipe.draw. Each recipe reads the boxes in its own format."""
        where: dict[str, Any] = {"positions": positions, "length": length, "boxes": boxes}
        drawn = [
            recipe.draw(seed, epoch, indices, sizes, view=view, **where)
            for view, recipe in enumerate(self.recipes)
        ]
        return tuple(replace(draws, temporal=drawn[0].temporal) for draws in drawn)

    def explain(self, device: str = "cpu", *, exact: bool = False) -> str:
        """Return text about how the fused engine carries out each view; see Recipe.explain."""
        return "\n".join(
            f"view {number}: {recipe.explain(device=device, exact=exact)}"
            for number, recipe in enumerate(self.recipes)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the views as plain values, ready for JSON."""
        return {
            "version": FORMAT_VERSION,
            "views": [_view(recipe) for recipe in self.recipes],
        }

    def save(self, path: str | PathLike[str]) -> None:
        """Write the views as YAML if the path ends with .yaml or .yml, and as JSON otherwise."""
        write_document(self.to_dict(), path)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the fingerprints of the recipes."""
        prints = ",".join(recipe.fingerprint for recipe in self.recipes)
        return hashlib.sha256(f"views:{prints}".encode()).hexdigest()

    @classmethod
    def from_dict(cls, saved: Any) -> "Views":
        """Return the views that a dictionary from ``to_dict`` describes.

        Raises:
            RecipeError: The version is another one, an operation is unknown, or a field is invalid.
        """
        from gpu_aug.files.schema import from_dict  # which imports this module

        return from_dict(cls, saved)

    def transform(self, seed: int | None = None, **options: Any) -> Any:
        """Return the views as a callable that returns one image per view; see `gpu_aug.Transform` for the options."""
        from gpu_aug.transform import ViewsTransform  # which imports this module

        return ViewsTransform(self, seed, **options)


def _view(recipe: Recipe) -> Any:
    """Return a view's operations as a list, or as a dictionary if its recipe has more than operations."""
    view = {name: part for name, part in recipe.to_dict().items() if name != "version"}
    return view["operations"] if len(view) == 1 else view
