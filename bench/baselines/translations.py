"""Our recipes in the words of other libraries, as their users would write them.

Only what the baselines need: the operations of the presets. A baseline that lacks one is Unable.
"""

from typing import Any

import torch

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


def torchvision_compose(recipe: Recipe) -> Any:
    """Translate into a transform of uint8 tensors [..., 3, height, width], with one draw for each call."""
    from torchvision.transforms import v2

    return v2.Compose(torchvision_transforms(recipe, before_float=[]))


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


def check_dali_recipe(recipe: Recipe) -> None:
    """Accept what the presets look like: at most one change of size, as the first step, and Normalize as the last.

    Raises:
        Unable: The recipe is another, or has an operation that is not translated.
    """
    *steps, last = recipe.operations
    for step in steps:
        match step:
            case RandomResizedCrop() | Resize(max_size=None) if step is steps[0]:
                continue
            case RandomShortestSize(min_size=tuple(), max_size=None) if step is steps[0]:
                continue
            case RandomCrop(padding=None) | CenterCrop() | HorizontalFlip() | ColorJitter():
                continue
        raise _unknown(step)
    if not isinstance(last, Normalize):
        raise _unknown(last)


def dali_steps(data: Any, recipe: Recipe, device: torch.device, *, layout: str = "CHW") -> Any:
    """Add a recipe that `check_dali_recipe` accepts to a DALI graph, with one draw for all frames of a clip.

    Sizes change where the data are decoded; the rest happens on the batch's device.

    Args:
        data: Node of uint8 images or clips.
        recipe: To translate.
        device: Where the batch has to arrive.
        layout: "CHW" for images, "FCHW" for clips.
    """
    from nvidia.dali import fn, types

    *steps, normalize = recipe.operations
    assert isinstance(normalize, Normalize)
    match steps[0]:
        case RandomResizedCrop() as crop:
            data = fn.random_resized_crop(
                data,
                size=crop.size,
                random_area=crop.scale,
                random_aspect_ratio=crop.ratio,
                antialias=crop.antialias,
            )
        case RandomShortestSize(min_size=tuple() as lengths, antialias=antialias):
            chosen = fn.random.uniform(values=[float(length) for length in lengths])
            data = fn.resize(data, resize_shorter=chosen, antialias=antialias)
        case Resize(size=(_, _) as size, antialias=antialias):
            data = fn.resize(data, size=size, antialias=antialias)
        case Resize(size=shorter, antialias=antialias):
            data = fn.resize(data, resize_shorter=shorter, antialias=antialias)
    if device.type == "cuda":
        data = data.gpu()
    options: dict[str, Any] = {}
    for step in steps:
        match step:
            case RandomCrop():
                options["crop_pos_x"] = fn.random.uniform(range=[0.0, 1.0])
                options["crop_pos_y"] = fn.random.uniform(range=[0.0, 1.0])
            case HorizontalFlip():
                options["mirror"] = fn.random.coin_flip(probability=step.p)
            case ColorJitter():
                data = _dali_jitter(data, step)
    return fn.crop_mirror_normalize(
        data,
        dtype=types.FLOAT,
        output_layout=layout,
        crop=recipe.fixed_size,
        mean=[255 * value for value in normalize.mean],
        std=[255 * value for value in normalize.std],
        **options,
    )


def _dali_jitter(images: Any, jitter: ColorJitter) -> Any:
    from nvidia.dali import fn

    chosen = fn.random.coin_flip(probability=jitter.p)
    hue = jitter.hue if isinstance(jitter.hue, tuple) else (-jitter.hue, jitter.hue)

    def factor(ends: Any) -> Any:
        return 1 + chosen * (fn.random.uniform(range=ends) - 1)

    return fn.color_twist(
        images,
        brightness=factor(jitter.brightness),
        contrast=factor(jitter.contrast),
        saturation=factor(jitter.saturation),
        hue=chosen * fn.random.uniform(range=[360 * end for end in hue]),
    )


def _several(lengths: int | tuple[int, ...]) -> list[int]:
    return [lengths] if isinstance(lengths, int) else list(lengths)


def _unknown(step: Operation) -> Unable:
    name = type(step).__name__
    return Unable(
        f"this baseline is not written for {name}, only for the operations of the presets"
    )
