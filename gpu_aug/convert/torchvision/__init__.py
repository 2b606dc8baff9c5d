"""Import of torchvision pipelines as recipes. Importing this package fills the table of converters."""

from typing import Any

from gpu_aug.convert.report import Line, Walk
from gpu_aug.convert.torchvision import color, filters, geometry, mix, warps
from gpu_aug.convert.torchvision.compose import build
from gpu_aug.recipe import Recipe
from gpu_aug.views import Views

__all__ = ["color", "convert", "filters", "from_torchvision", "geometry", "mix", "warps"]


def from_torchvision(source: Any, *, strict: bool = True) -> Recipe | Views:
    """Return the recipe with the distributions and pixels of a torchvision pipeline (transforms or transforms.v2).

    Pixels are those of torchvision on float32 tensors in [0, 1]: on PIL images and uint8 tensors torchvision rounds after each
    transform, and a recipe does not. Conversions between PIL images, arrays and tensors need no operation. Values such
    as ``fill``
    are read in the units that images have at that step: 0 to 255 before ToTensor or ToDtype(float32, scale=True), [0,
    1] after it.

    Args:
        source: A Compose, a list, an nn.Sequential or a single transform.
        strict: Whether transforms without an equivalent raise an error. If False, they are called unchanged on the CPU, and a
            warning names them.

    Returns:
        The recipe; for a pipeline with FiveCrop or TenCrop, Views with one recipe per crop.

    Raises:
        RecipeError: Transforms have no equivalent; the error gives for each its place, the reason and the nearest alternative.
    """
    walk = Walk(strict)
    result = build(source, walk)
    walk.finish("torchvision")
    assert result is not None
    return result


def convert(source: Any, *, strict: bool = True) -> tuple[Recipe | Views | None, list[Line]]:
    """Import a pipeline as from_torchvision does; return the recipe, or None if a step is refused, and the report."""
    walk = Walk(strict)
    result = build(source, walk)
    if result is not None:
        walk.finish("torchvision")
    return result, walk.lines
