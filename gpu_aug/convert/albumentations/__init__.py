"""Import of Albumentations pipelines as recipes, and export of recipes as Albumentations pipelines.

Importing this package fills the table of converters.
"""

from collections.abc import Mapping
from math import inf
from os import PathLike
from typing import Any

from gpu_aug.convert.albumentations import color, erase, filters, geometry, warps
from gpu_aug.convert.albumentations.compose import build_recipe
from gpu_aug.convert.albumentations.export import to_albumentations
from gpu_aug.convert.albumentations.node import as_node
from gpu_aug.convert.report import Conversion, Walk
from gpu_aug.convert.translate import Translate, Translations
from gpu_aug.errors import RecipeError
from gpu_aug.files.document import read_document
from gpu_aug.files.limits import MAX_PIXELS
from gpu_aug.ops.operation import limit_pixels
from gpu_aug.recipe import Recipe

__all__ = [
    "color",
    "convert",
    "erase",
    "filters",
    "from_albumentations",
    "geometry",
    "to_albumentations",
    "warps",
]


def from_albumentations(
    source: Any, *, strict: bool = True, translate: Translate | None = None
) -> Recipe:
    """Return the recipe with the distributions and pixels of a pipeline of Albumentations 2.0.7 or 2.0.8.

    Pixels are those of Albumentations on float32 images in [0, 1]: on uint8 images Albumentations rounds after each
    transform, and a
    recipe does not. If a transform works in 8 bits by definition, such as Posterize, the recipe rounds too. Masks always take the
    nearest pixel. The recipe draws its own random numbers, so a ``seed`` of the pipeline has no effect.

    Args:
        source: A Compose or any transform, the dictionary that its ``to_dict()`` returned, or the path of a JSON or YAML file
            that ``A.save`` wrote.
        strict: Whether transforms without an equivalent raise an error. If False, they are called unchanged on the CPU, and a
            warning names them. Some that keep the size of images, such as RandomRain, always are.
        translate: What replaces steps of your own: a class or function -> a function that takes the step and returns an operation, a
            transform of Albumentations, a list of these, or None for nothing. A function is looked up in plain functions and
            Lambdas, before the class of a step; classes of Albumentations can be replaced as well.
            The replacement contains the probability, ``p=step.p``, which counts as 1 inside OneOf, as there.

    Raises:
        RecipeError: Transforms have no equivalent; the error gives for each its place, the reason and the nearest alternative. Or a
            key of ``translate`` met no step.
    """
    walk = Walk(strict, Translations(translate))
    recipe = _build(source, walk)
    walk.finish("Albumentations")
    assert recipe is not None
    return recipe


def convert(source: Any, *, strict: bool = True, translate: Translate | None = None) -> Conversion:
    """Import a pipeline as from_albumentations does; return the recipe, or None if a step is refused, and the report."""
    walk = Walk(strict, Translations(translate))
    recipe = _build(source, walk)
    if recipe is not None:
        walk.finish("Albumentations")
    return Conversion(recipe, walk.lines)


def _build(source: Any, walk: Walk) -> Recipe | None:
    with limit_pixels(MAX_PIXELS if isinstance(source, str | PathLike) else inf):
        return build_recipe(as_node(_opened(source)), walk)


def _opened(source: Any) -> Any:
    if isinstance(source, str | PathLike):
        source = read_document(source).value
    if isinstance(source, Mapping):
        inner = source.get("transform", source)
        if not isinstance(inner, Mapping) or not isinstance(inner.get("__class_fullname__"), str):
            raise RecipeError(
                "an Albumentations pipeline must be a Compose, what its to_dict() returned, or a file "
                f"that A.save wrote, got a dictionary with {', '.join(map(str, source)) or 'nothing'}"
            )
        return inner
    return source
