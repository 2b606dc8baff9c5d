"""Errors for arguments that should be a recipe, with the call that makes one, such as Recipe.from_albumentations."""

from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.ops.foreign.foreign import comes_from

# Package of a pipeline -> the call that makes a recipe of it.
_IMPORTED = {
    "albumentations": "Recipe.from_albumentations(pipeline)",
    "torchvision": "Recipe.from_torchvision(pipeline)",
    "kornia": "Recipe([pipeline]), which keeps a module of Kornia as one step",
}
_MOST_NAMED = 80  # characters of the argument; a longer message is not read


def require_recipe(given: Any, *allowed: type, name: str = "recipe") -> None:
    """Raise an error that names the right call, unless an argument is a recipe.

    Args:
        given: An argument.
        allowed: Its allowed types: Recipe, and Views or Schedule where the function takes them.
        name: The name of the argument.

    Raises:
        RecipeError: It has another type.
    """
    if not isinstance(given, allowed):
        listed = " or ".join(one.__name__ for one in allowed)
        raise RecipeError(f"{name} must be {listed}, {way_to_recipe(given)}")


def is_pipeline(given: Any) -> bool:
    """Whether something is a pipeline of another library, or holds a recipe, rather than a function of the user."""
    return bool(_library(given)) or hasattr(given, "recipe")


def way_to_recipe(given: Any) -> str:
    """Return what was given instead of a recipe, and the call that makes a recipe of it.

    Args:
        given: A pipeline of another library, operations, a file, a function, or anything else.

    Returns:
        The end of a sentence: "got Compose of torchvision: write ...".
    """
    library, name = _library(given), type(given).__name__
    if library:
        return f"got {name} of {library}: write {_IMPORTED[library]}"
    if hasattr(given, "recipe"):
        return f"got {name}: give its recipe, {name.lower()}.recipe"
    text = repr(given)
    text = text if len(text) <= _MOST_NAMED else f"{text[:_MOST_NAMED]}..."
    way = "Recipe([first, second]), Recipe.preset(name) or Recipe.load(path)"
    return f"got {text}: write {way}" + (
        ", and Recipe([function]) for a function on a batch" * callable(given)
    )


def _library(given: Any) -> str:
    """Return the library of a pipeline, or "" if it is not a pipeline that can be imported."""
    if own := next((library for library in _IMPORTED if comes_from(library, given)), ""):
        return own
    modules = comes_from("torch", given) and hasattr(given, "children")
    steps = list(given.children()) if modules else given
    inner = map(_library, steps) if isinstance(steps, list | tuple) else ()
    return next((library for library in inner if library), "")
