"""Steps of other libraries that mean something on a batch only; foreign steps get one image at a time."""

from collections.abc import Iterable
from inspect import signature
from typing import Any

from gpu_aug.errors import RecipeError
from gpu_aug.names import ALIASES

_MIXING = ("CutMix", "MixUp", "Mosaic")


def check_single(steps: Iterable[Any]) -> None:
    """Refuse steps that would silently mean something else on a single image.

    Args:
        steps: Modules or transforms, with all that they are made of.

    Raises:
        RecipeError: One mixes the images of its batch, or draws once for its batch.
    """
    for step in steps:
        name = type(step).__name__
        library = type(step).__module__.partition(".")[0]
        ours = ALIASES.get(name, name.removeprefix("Random"))
        if library in ("kornia", "torchvision") and ours in _MIXING:
            raise RecipeError(
                f"{name} must get a batch to mix, got one image at a time as every step that is not ours: "
                f"use gpu_aug.{ours}()"
            )
        if library == "kornia" and getattr(step, "same_on_batch", None) is True and _asks(step):
            raise RecipeError(
                f"{name} same_on_batch must be False in a recipe, which draws for each sample, got True: "
                "leave it out (the frames of a clip get one draw anyway)"
            )


def _asks(step: Any) -> bool:
    """Whether a user can say ``same_on_batch``; modules without chance have it of themselves."""
    return "same_on_batch" in signature(type(step)).parameters
