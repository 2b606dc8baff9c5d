"""Import of torchvision pipelines as recipes. Importing this package fills the table of converters."""

from typing import Any

from gpu_aug.convert.report import Conversion, Walk
from gpu_aug.convert.torchvision import color, filters, geometry, mix, warps
from gpu_aug.convert.torchvision.compose import build
from gpu_aug.convert.translate import Translate, Translations
from gpu_aug.recipe import Recipe
from gpu_aug.views import Views

__all__ = ["color", "convert", "filters", "from_torchvision", "geometry", "mix", "warps"]


def from_torchvision(
    source: Any, *, strict: bool = True, translate: Translate | None = None
) -> Recipe | Views:
    """Return the recipe with the distributions and pixels of a torchvision pipeline (transforms or transforms.v2).

    Pixels are those of torchvision on float32 tensors in [0, 1]: on PIL images and uint8 tensors torchvision rounds after each
    transform, and a recipe does not. Conversions between PIL images, arrays and tensors need no operation. Values such
    as ``fill``
    are read in the units that images have at that step: 0 to 255 before ToTensor or ToDtype(float32, scale=True), [0,
    1] after it.

    Args:
        source: A Compose, a list, an nn.Sequential or a single transform.
        strict: Whether transforms without an equivalent raise an error. If False, they are called unchanged on the CPU, and a
            warning names them. Bicubic warps of Pillow images always are.
        translate: What replaces steps of your own: a class or function -> a function that takes the step and returns an operation, a
            transform of torchvision, a list of these, or None for nothing. A function is looked up in plain functions and
            Lambdas, before the class of a step; classes of torchvision can be replaced as well.

    Returns:
        The recipe; for a pipeline with FiveCrop or TenCrop, Views with one recipe per crop.

    Raises:
        RecipeError: Transforms have no equivalent; the error gives for each its place, the reason and the nearest alternative. Or a
            key of ``translate`` met no step.

    Example:
        >>> class MocoBlur:                                # of your own: a recipe cannot look into it
        ...     def __init__(self, sigma): self.sigma = sigma
        ...     def __call__(self, image): ...
        >>> from_torchvision([MocoBlur((0.1, 2.0))], translate={MocoBlur: lambda step: GaussianBlur(23, step.sigma)})
        Recipe([GaussianBlur(kernel_size=23)])
    """
    walk = Walk(strict, Translations(translate))
    result = build(source, walk)
    walk.finish("torchvision")
    assert result is not None
    return result


def convert(source: Any, *, strict: bool = True, translate: Translate | None = None) -> Conversion:
    """Import a pipeline as from_torchvision does; return the recipe, or None if a step is refused, and the report."""
    walk = Walk(strict, Translations(translate))
    result = build(source, walk)
    if result is not None:
        walk.finish("torchvision")
    return Conversion(result, walk.lines)
