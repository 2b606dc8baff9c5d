"""Recipes from torchvision pipelines. Importing it fills the table of converters."""

from typing import Any

from gpu_aug.convert.report import Line, Walk
from gpu_aug.convert.torchvision import color, filters, geometry, mix, warps
from gpu_aug.convert.torchvision.compose import build
from gpu_aug.recipe import Recipe
from gpu_aug.views import Views

__all__ = ["color", "convert", "filters", "from_torchvision", "geometry", "mix", "warps"]


def from_torchvision(source: Any, *, strict: bool = True) -> Recipe | Views:
    """Import a pipeline of torchvision, transforms or transforms.v2: same distributions, same pixels.

    Pixels are those of torchvision on float32 tensors in [0, 1]: on PIL images and uint8 it rounds
    after each transform, and a recipe does not. Conversions between PIL images, arrays and tensors
    need no operation. Values such as ``fill`` are read in the units that images have at that place:
    0..255 before ToTensor or ToDtype(float32, scale=True), [0, 1] after it.

    Args:
        source: A Compose, a list, an nn.Sequential or a single transform.
        strict: Whether transforms that have no equal here are an error. Otherwise they are kept as
            they are, run on the CPU, and a warning names them.

    Returns:
        A recipe; views, one per crop, for a pipeline with FiveCrop or TenCrop.

    Raises:
        RecipeError: One sentence for each transform that has no equal here: where it stands, why,
            and what comes nearest.
    """
    walk = Walk(strict)
    result = build(source, walk)
    walk.finish("torchvision")
    assert result is not None
    return result


def convert(source: Any, *, strict: bool = True) -> tuple[Recipe | Views | None, list[Line]]:
    """Import like from_torchvision, but return None and a report instead of raising an error."""
    walk = Walk(strict)
    result = build(source, walk)
    if result is not None:
        walk.finish("torchvision")
    return result, walk.lines
