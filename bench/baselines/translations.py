"""Our recipes in the words of other libraries, as their users would write them.

Only what the baselines need: the operations of the presets. A baseline that lacks one is Unable.
"""

from typing import Any

from bench.compare.contestant import Unable
from gpu_aug import (
    CenterCrop,
    ColorJitter,
    HorizontalFlip,
    Normalize,
    Operation,
    RandomCrop,
    RandomResizedCrop,
    RandomShortestSize,
    Recipe,
    Resize,
)


def torchvision_transforms(recipe: Recipe, *, before_float: list[Any]) -> list[Any]:
    """Translate into torchvision v2 transforms.

    Args:
        recipe: To translate.
        before_float: What turns an opened image into a tensor, if it is not one yet.
    """
    import torch
    from torchvision.transforms import v2

    to_float = [*before_float, v2.ToDtype(torch.float32, scale=True)]
    transforms: list[Any] = []
    for step in recipe.operations:
        match step:
            case RandomResizedCrop():
                transforms.append(
                    v2.RandomResizedCrop(
                        step.size, scale=step.scale, ratio=step.ratio, antialias=step.antialias
                    )
                )
            case Resize():
                transforms.append(v2.Resize(step.size, antialias=step.antialias))
            case RandomShortestSize():
                transforms.append(
                    v2.RandomShortestSize(step.min_size, step.max_size, antialias=step.antialias)
                )
            case RandomCrop(padding=None):
                transforms.append(v2.RandomCrop(step.size, pad_if_needed=True))
            case CenterCrop():
                transforms.append(v2.CenterCrop(step.size))
            case HorizontalFlip():
                transforms.append(v2.RandomHorizontalFlip(step.p))
            case ColorJitter():
                jitter = v2.ColorJitter(step.brightness, step.contrast, step.saturation, step.hue)
                transforms.append(v2.RandomApply([jitter], step.p))
            case Normalize():
                transforms += [*to_float, v2.Normalize(step.mean, step.std)]
                to_float = []
            case _:
                raise _unknown(step)
    return transforms + to_float


def albumentations_compose(recipe: Recipe) -> Any:
    """Translate into an Albumentations 2 pipeline from uint8 [height, width, 3] to a tensor [3, height, width]."""
    import albumentations as A
    from albumentations.pytorch import ToTensorV2

    transforms: list[Any] = []
    for step in recipe.operations:
        match step:
            case RandomResizedCrop():
                transforms.append(
                    A.RandomResizedCrop(step.size, scale=step.scale, ratio=step.ratio)
                )
            case Resize(size=int()):
                transforms.append(A.SmallestMaxSize(step.size))
            case Resize(size=(height, width)):
                transforms.append(A.Resize(height, width))
            case RandomShortestSize(max_size=None):
                transforms.append(A.SmallestMaxSize(max_size=_several(step.min_size)))
            case RandomCrop(size=(height, width), padding=None):
                transforms.append(A.RandomCrop(height, width, pad_if_needed=True))
            case CenterCrop(size=(height, width)):
                transforms.append(A.CenterCrop(height, width))
            case HorizontalFlip():
                transforms.append(A.HorizontalFlip(p=step.p))
            case ColorJitter():
                factors = (step.brightness, step.contrast, step.saturation, step.hue)
                transforms.append(A.ColorJitter(*factors, p=step.p))
            case Normalize():
                transforms.append(A.Normalize(step.mean, step.std))
            case _:
                raise _unknown(step)
    if not any(isinstance(step, Normalize) for step in recipe.operations):
        transforms.append(A.ToFloat(max_value=255))
    return A.Compose([*transforms, ToTensorV2()])


def kornia_modules(recipe: Recipe) -> list[Any]:
    """Translate into Kornia augmentations for a float batch; the batch has one size already."""
    import kornia.augmentation as K
    import torch

    modules: list[Any] = []
    for step in recipe.operations:
        match step:
            case RandomResizedCrop():
                modules.append(K.RandomResizedCrop(step.size, scale=step.scale, ratio=step.ratio))
            case Resize():
                continue  # the worker's resize to one size takes its place
            case CenterCrop():
                modules.append(K.CenterCrop(step.size))
            case HorizontalFlip():
                modules.append(K.RandomHorizontalFlip(p=step.p))
            case ColorJitter():
                factors = (step.brightness, step.contrast, step.saturation, step.hue)
                modules.append(K.ColorJitter(*factors, p=step.p))
            case Normalize():
                modules.append(K.Normalize(torch.tensor(step.mean), torch.tensor(step.std)))
            case _:
                raise _unknown(step)
    return modules


def _several(lengths: int | tuple[int, ...]) -> list[int]:
    return [lengths] if isinstance(lengths, int) else list(lengths)


def _unknown(step: Operation) -> Unable:
    name = type(step).__name__
    return Unable(
        f"this baseline is not written for {name}, only for the operations of the presets"
    )
