"""Export of recipes as Kornia pipelines, with equal distributions per image and equal pixels."""

from collections.abc import Callable
from typing import Any

import torch

from gpu_aug.errors import RecipeError
from gpu_aug.ops.blur.blurs import GaussianBlur
from gpu_aug.ops.color.adjust import Grayscale, Invert
from gpu_aug.ops.color.jitter import ColorJitter
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.combine import Combinator
from gpu_aug.ops.foreign.transforms import KorniaModule
from gpu_aug.ops.geometric.flips import HorizontalFlip, Identity, VerticalFlip
from gpu_aug.ops.geometric.resizes import Resize
from gpu_aug.ops.geometric.spatial import Crop, Remap, Resample, Warp
from gpu_aug.ops.operation import Operation
from gpu_aug.recipe import Recipe


def to_kornia(recipe: Recipe) -> Any:
    """Return the recipe as ``K.AugmentationSequential`` for images, float32 [B, 3, H, W] in [0, 1].

    The distribution of each image is that of the recipe. Images of a batch are not always independent in Kornia:
    ColorJitter draws one order for the batch.

    Raises:
        RecipeError: Operations have no equivalent in Kornia; the error has one sentence for each.
    """
    import kornia.augmentation as K

    modules, refused = [], []
    for operation in recipe.operations:
        try:
            modules += [] if isinstance(operation, Identity) else [export_leaf(operation, K)]
        except RecipeError as error:
            refused.append(f"Recipe > {type(operation).__name__}: {error}")
    if recipe.target_params:
        refused.append(
            "Recipe: Kornia keeps all boxes and keypoints, and counts pixels of boxes in another way; "
            "nearest: the recipe without boxes, keypoints and masks"
        )
    if refused:
        listed = "".join(f"\n  {line}" for line in refused)
        raise RecipeError(f"the recipe has no equal in Kornia:{listed}")
    return K.AugmentationSequential(*modules, data_keys=["input"])


def export_leaf(operation: Operation, library: Any) -> Any:
    """Return the Kornia module that is equivalent to one operation; ``library`` is ``kornia.augmentation``.

    Raises:
        RecipeError: No module is equivalent; the error gives the reason and the nearest module.
    """
    make = _MODULES.get(type(operation))
    if make is not None:
        return make(operation, library)
    for family, reason in _REASONS.items():
        if isinstance(operation, family):
            raise RecipeError(reason)
    raise RecipeError("no module of Kornia is known to have this law and these pixels")


def _jitter(operation: Any, library: Any) -> Any:
    factors = (operation.brightness, operation.contrast, operation.saturation, operation.hue)
    return library.ColorJitter(*factors, p=operation.p)


def _blur(operation: Any, library: Any) -> Any:
    return library.RandomGaussianBlur(
        operation.kernel_size, operation.sigma, border_type="reflect", p=operation.p
    )


def _normalize(operation: Any, library: Any) -> Any:
    return library.Normalize(torch.tensor(operation.mean), torch.tensor(operation.std), p=1.0)


def _grayscale(operation: Any, library: Any) -> Any:
    method = getattr(operation, "method", "weighted_average")
    if method != "weighted_average":
        raise RecipeError(f"Kornia weighs the channels, got {method!r}; nearest: Grayscale()")
    return library.RandomGrayscale(p=operation.p)


def _resize(operation: Any, library: Any) -> Any:
    size = operation.size
    if (
        isinstance(size, int)
        or operation.antialias
        or operation.interpolation != "bilinear"
        or operation != Resize(size, antialias=False)
    ):
        raise RecipeError(
            "Kornia filters in another way when it shrinks, and rounds the longer side in another way; "
            "nearest: Resize((height, width), antialias=False)"
        )
    return library.Resize(size, resample="bilinear", align_corners=False, antialias=False, p=1.0)


def _with_p(name: str) -> Callable[[Any, Any], Any]:
    """Return a function that makes the module of Kornia with this name, from ``p`` alone."""
    return lambda operation, library: getattr(library, name)(p=operation.p)


_MODULES: dict[type, Callable[[Any, Any], Any]] = {
    HorizontalFlip: _with_p("RandomHorizontalFlip"),
    VerticalFlip: _with_p("RandomVerticalFlip"),
    Invert: _with_p("RandomInvert"),
    Grayscale: _grayscale,
    ColorJitter: _jitter,
    GaussianBlur: _blur,
    Normalize: _normalize,
    Resize: _resize,
    KorniaModule: lambda operation, _: operation.module,
}

_REASONS: dict[type, str] = {
    Combinator: "Kornia's containers choose once for a whole batch, and a recipe for each image; "
    "nearest: AugmentationSequential(..., random_apply=n)",
    Resample: "Kornia draws, rounds and resamples its crops in another way; "
    "nearest: K.RandomResizedCrop(size, align_corners=False), which is up to a pixel beside it",
    Crop: "Kornia draws and pads its crops in another way; nearest: K.RandomCrop(size, cropping_mode='slice')",
    Warp: "Kornia draws its angles, shifts and centres by another law; nearest: K.RandomAffine(...)",
    Remap: "Kornia draws its displacements by another law; nearest: K.RandomElasticTransform(...)",
}
