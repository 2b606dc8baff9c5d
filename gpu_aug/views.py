"""Views: several recipes for several images of the same sample, or for the cameras of a sample."""

import hashlib
import json
from collections.abc import Mapping, Sequence
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
    def titles(self) -> tuple[str, ...]:
        """A name of each view, for people."""
        return tuple(f"view {number}" for number in range(len(self)))

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
        """Return the draws of each view; see Recipe.draw. Each recipe reads the boxes in its own format.

        `sizes` is int64 [B, 2], or int64 [views, B, 2] if the source images of the views have sizes of their own.
        """
        where: dict[str, Any] = {"positions": positions, "length": length, "boxes": boxes}
        of_view = sizes if np.ndim(sizes) == 3 else [sizes] * len(self)
        drawn = [
            recipe.draw(seed, epoch, indices, own, view=view, **where)
            for view, (recipe, own) in enumerate(zip(self.recipes, of_view, strict=True))
        ]
        return tuple(replace(draws, temporal=drawn[0].temporal) for draws in drawn)

    def explain(self, device: str = "cpu", *, exact: bool = False) -> str:
        """Return text about how the fused engine carries out each view; see Recipe.explain."""
        return "\n".join(
            f"{title}: {recipe.explain(device=device, exact=exact)}"
            for title, recipe in zip(self.titles, self.recipes, strict=True)
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


@dataclass(frozen=True, init=False)
class CameraRecipes(Views):
    """Recipes for the cameras of a sample, for a Loader of a dataset that names cameras (LeRobot).

    The cameras of a group share a recipe and, in each sample, one draw, as stereo pairs must. Groups draw independently,
    even if their recipes are equal. The draws depend on a group's place among the groups, not on the cameras' names.

    Args:
        recipes: The recipe of each group, by the name of a camera or by a tuple of names; their order counts.

    Attributes:
        groups: The cameras of each recipe.

    Raises:
        RecipeError: There are no recipes, a key names no camera, a value is not a recipe, or two groups name one camera.

    Example:
        >>> near = Recipe([RandomResizedCrop(64), ColorJitter(0.2), Normalize()])
        >>> far = Recipe([RandomResizedCrop((96, 128)), Normalize()])
        >>> CameraRecipes({("left", "right"): near, "top": far}).groups
        (('left', 'right'), ('top',))
    """

    groups: tuple[tuple[str, ...], ...]

    def __init__(self, recipes: Mapping[Any, Recipe]) -> None:
        if not isinstance(recipes, Mapping) or not recipes:
            raise RecipeError(
                f"recipes of cameras must be a dictionary of at least one Recipe, got {recipes!r}: write "
                'CameraRecipes({"top": first, ("left", "right"): second})'
            )
        groups = tuple((key,) if isinstance(key, str) else key for key in recipes)
        for group, recipe in zip(groups, recipes.values(), strict=True):
            is_tuple = isinstance(group, tuple) and len(group) > 0
            if not is_tuple or not all(isinstance(name, str) and name for name in group):
                raise RecipeError(
                    f"a group of cameras must be the name of a camera or a tuple of names, got {group!r}: write "
                    '("left", "right")'
                )
            require_recipe(recipe, Recipe, name=f"the recipe of {', '.join(group)}")
        names = [name for group in groups for name in group]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise RecipeError(
                f"a camera must be in one group, and {', '.join(repeated)} is named twice: leave one of them out"
            )
        super().__init__([*recipes.values()])
        object.__setattr__(self, "groups", groups)

    @property
    def titles(self) -> tuple[str, ...]:
        """The names of the cameras of each group, for people."""
        return tuple(", ".join(group) for group in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipes and their cameras as plain values, ready for JSON."""
        return {
            "version": FORMAT_VERSION,
            "camera_groups": [
                {"cameras": list(group), **_parts(recipe)}
                for group, recipe in zip(self.groups, self.recipes, strict=True)
            ],
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of the groups' cameras and the fingerprints of their recipes."""
        prints = [recipe.fingerprint for recipe in self.recipes]
        pairs = json.dumps([*zip(self.groups, prints, strict=True)])
        return hashlib.sha256(f"camera groups:{pairs}".encode()).hexdigest()

    def transform(self, seed: int | None = None, **options: Any) -> Any:
        """Raise a RecipeError: a callable gets images without the names of their cameras."""
        del seed, options
        raise RecipeError(
            "CameraRecipes have no transform, because its images have no names of cameras: give them to a Loader, or "
            "call transform of each of their recipes"
        )


def _parts(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain values without the version."""
    return {name: part for name, part in recipe.to_dict().items() if name != "version"}


def _view(recipe: Recipe) -> Any:
    """Return a view's operations as a list, or as a dictionary if its recipe has more than operations."""
    view = _parts(recipe)
    return view["operations"] if len(view) == 1 else view
