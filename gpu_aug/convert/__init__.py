"""Conversion of pipelines of other libraries to recipes, and of recipes to their pipelines."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from gpu_aug.convert import albumentations, torchvision
from gpu_aug.convert.albumentations import from_albumentations, to_albumentations
from gpu_aug.convert.kornia import to_kornia
from gpu_aug.convert.report import Line
from gpu_aug.convert.torchvision import from_torchvision
from gpu_aug.names import policy_reason
from gpu_aug.ops.foreign.foreign import comes_from
from gpu_aug.recipe import Recipe
from gpu_aug.views import Views

__all__ = [
    "Line",
    "convert",
    "from_albumentations",
    "from_torchvision",
    "to_albumentations",
    "to_kornia",
]


def convert(source: Any, *, strict: bool = True) -> tuple[Recipe | Views | None, list[Line]]:
    """Import a pipeline of Albumentations or torchvision, with a report on each step.

    Args:
        source: The pipeline, in any form that ``from_albumentations`` or ``from_torchvision`` accepts.
        strict: Whether steps without an equivalent are refused; if False, they are called unchanged on the CPU.

    Returns:
        The recipe, or None if a step is refused; and a Line for each step.

    Raises:
        RecipeError: ``source`` is not a pipeline of these libraries.
    """
    if isinstance(source, str) and policy_reason(source):
        return torchvision.convert(source, strict=strict)
    if isinstance(source, str | PathLike | Mapping) or comes_from("albumentations", source):
        return albumentations.convert(source, strict=strict)
    return torchvision.convert(source, strict=strict)
