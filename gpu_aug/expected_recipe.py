"""The way from something that is no recipe, such as a Compose, to a recipe; for every argument that takes one."""

from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.ops.foreign.foreign import comes_from

_IMPORTED = {
    "albumentations": "Recipe.from_albumentations(pipeline)",
    "torchvision": "Recipe.from_torchvision(pipeline)",
    "kornia": "Recipe([pipeline]), which keeps a module of Kornia as one step",
}
_MOST_NAMED = 80  # characters of what was given


def require_recipe(given: Any, *allowed: type, name: str = "recipe") -> None:
    """Refuse what is no recipe, with the call that makes one of it.

    Args:
        given: An argument.
        allowed: What it may be: Recipe, and Views or Schedule where the function takes them.
        name: What the argument is called.

    Raises:
        RecipeError: It is something else.
    """
    if not isinstance(given, allowed):
        listed = " or ".join(one.__name__ for one in allowed)
        raise RecipeError(f"{name} must be {listed}, {way_to_recipe(given)}")


def is_pipeline(given: Any) -> bool:
    """Whether something is a pipeline of another library, or holds a recipe, rather than a function of the user."""
    return bool(_library(given)) or hasattr(given, "recipe")


def way_to_recipe(given: Any) -> str:
    """Return what is wrong with something that is no recipe, and the call that makes one of it.

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
    """Return whose pipeline something is, "" for none of those that can be imported."""
    if own := next((library for library in _IMPORTED if comes_from(library, given)), ""):
        return own
    modules = comes_from("torch", given) and hasattr(given, "children")
    steps = list(given.children()) if modules else given
    inner = map(_library, steps) if isinstance(steps, list | tuple) else ()
    return next((library for library in inner if library), "")
