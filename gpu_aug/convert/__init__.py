"""Conversion of pipelines of other libraries to recipes, and of recipes to their pipelines."""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from gpu_aug.convert import albumentations, torchvision
from gpu_aug.convert.albumentations import from_albumentations, to_albumentations
from gpu_aug.convert.kornia import to_kornia
from gpu_aug.convert.report import Conversion, Line
from gpu_aug.convert.torchvision import from_torchvision
from gpu_aug.convert.translate import Translate
from gpu_aug.names import policy_reason
from gpu_aug.ops.foreign.foreign import comes_from

__all__ = [
    "Conversion",
    "Line",
    "convert",
    "from_albumentations",
    "from_torchvision",
    "to_albumentations",
    "to_kornia",
]


def convert(source: Any, *, strict: bool = True, translate: Translate | None = None) -> Conversion:
    """Import a pipeline of Albumentations or torchvision, with a report on each step; ``print`` shows it as a table.

    Args:
        source: The pipeline, in any form that ``from_albumentations`` or ``from_torchvision`` accepts.
        strict: Whether steps without an equivalent are refused; if False, they are called unchanged on the CPU.
        translate: What replaces steps of your own classes and functions; see ``from_albumentations`` and ``from_torchvision``.

    Returns:
        The recipe, or None if a step is refused; and a Line for each step.

    Raises:
        RecipeError: ``source`` is not a pipeline of these libraries.
    """
    is_policy = isinstance(source, str) and policy_reason(source)
    of_albumentations = isinstance(source, str | PathLike | Mapping) or comes_from(
        "albumentations", source
    )
    if of_albumentations and not is_policy:
        return albumentations.convert(source, strict=strict, translate=translate)
    return torchvision.convert(source, strict=strict, translate=translate)
