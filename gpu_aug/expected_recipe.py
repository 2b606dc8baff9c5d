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
        given: The argument.
        allowed: Allowed types of the argument: Recipe, and Views or Schedule if the function takes them.
        name: Name of the argument.

    Raises:
        RecipeError: The argument has another type.
    """
    if not isinstance(given, allowed):
        listed = " or ".join(one.__name__ for one in allowed)
        raise RecipeError(f"{name} must be {listed}, {way_to_recipe(given)}")


def is_pipeline(given: Any) -> bool:
    """Return whether a value is a pipeline of another library or holds a recipe, and so is not a plain function."""
    return bool(_library(given)) or hasattr(given, "recipe")


def way_to_recipe(given: Any) -> str:
    """Return a description of what was given instead of a recipe, and the call that makes a recipe of it.

    Args:
        given: A pipeline of another library, operations, a file, a function, or any other value.

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
