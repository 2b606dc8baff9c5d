"""Translate our recipes to other libraries, as their users would write them.

Only the operations of the presets are translated. If one is missing in a library, its baseline is Unable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.compare.task import Unable
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

Make = Callable[[Any, Any], Any]
"""A function that makes a transform of a library from its module and our operation; it returns None if the library
lacks the setting."""


@dataclass(frozen=True)
class Words:
    """The translations of one operation: for each library, a function that makes its transform, or None.

    Attributes:
        torchvision: Makes the transform of torchvision.transforms.v2; None if the operation is not translated.
        albumentations: Makes the transform of albumentations; None if the operation is not translated.
        kornia: Makes the transform of kornia.augmentation; None if the operation is not translated.
    """

    torchvision: Make | None
    albumentations: Make | None
    kornia: Make | None = None


_WORDS: Mapping[type[Operation], Words] = {
    RandomResizedCrop: Words(
        lambda v2, op: v2.RandomResizedCrop(
            op.size, scale=op.scale, ratio=op.ratio, antialias=op.antialias
        ),
        lambda alb, op: alb.RandomResizedCrop(op.size, scale=op.scale, ratio=op.ratio),
        lambda kor, op: kor.RandomResizedCrop(op.size, scale=op.scale, ratio=op.ratio),
    ),
    Resize: Words(
        lambda v2, op: v2.Resize(op.size, antialias=op.antialias),
        lambda alb, op: alb.SmallestMaxSize(op.size) if isinstance(op.size, int) else op.size and alb.Resize(*op.size),
    ),
    RandomShortestSize: Words(
        lambda v2, op: v2.RandomShortestSize(op.min_size, op.max_size, antialias=op.antialias),
        lambda alb, op: alb.SmallestMaxSize(max_size=_several(op.min_size)) if op.max_size is None else None,
    ),
    RandomCrop: Words(
        lambda v2, op: v2.RandomCrop(op.size, pad_if_needed=True) if op.padding is None else None,
        lambda alb, op: alb.RandomCrop(*op.size, pad_if_needed=True) if op.padding is None else None,
    ),
    CenterCrop: Words(
        lambda v2, op: v2.CenterCrop(op.size),
        lambda alb, op: alb.CenterCrop(*op.size),
        lambda kor, op: kor.CenterCrop(op.size),
    ),
    HorizontalFlip: Words(
        lambda v2, op: v2.RandomHorizontalFlip(op.p),
        lambda alb, op: alb.HorizontalFlip(p=op.p),
        lambda kor, op: kor.RandomHorizontalFlip(p=op.p),
    ),
    ColorJitter: Words(
        lambda v2, op: v2.RandomApply([v2.ColorJitter(*_factors(op))], op.p),
        lambda alb, op: alb.ColorJitter(*_factors(op), p=op.p),
        lambda kor, op: kor.ColorJitter(*_factors(op), p=op.p),
    ),
    Normalize: Words(
        lambda v2, op: v2.Normalize(op.mean, op.std),
        lambda alb, op: alb.Normalize(op.mean, op.std),
        lambda kor, op: kor.Normalize(torch.tensor(op.mean), torch.tensor(op.std)),
    ),
}  # fmt: skip


def _translate(operations: Sequence[Operation], module: Any, library: str) -> list[Any]:
    """Translate operations to transforms of a library; `library` is an attribute of `Words`.

    Raises:
        Unable: An operation is not translated.
    """
    transforms = []
    for step in operations:
        make: Make | None = getattr(_WORDS.get(type(step)), library, None)
        transform = make(module, step) if make else None
        if transform is None:
            raise _unknown(step)
        transforms.append(transform)
    return transforms


def _factors(jitter: ColorJitter) -> tuple[Any, ...]:
    return jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue


def torchvision_transforms(recipe: Recipe, *, before_float: list[Any]) -> list[Any]:
    """Translate a recipe to torchvision v2 transforms.

    Args:
        recipe: The recipe to translate.
        before_float: Transforms that convert an opened image to a tensor; empty if images are tensors already.
    """
    from torchvision.transforms import v2

    transforms = _translate(recipe.operations, v2, "torchvision")
    kinds = [type(step) for step in recipe.operations]
    first_float = kinds.index(Normalize) if Normalize in kinds else len(kinds)
    to_float = [*before_float, v2.ToDtype(torch.float32, scale=True)]
    return [*transforms[:first_float], *to_float, *transforms[first_float:]]


def torchvision_compose(recipe: Recipe) -> Any:
    """Translate a recipe to one transform of uint8 tensors [..., 3, height, width], with one draw per call."""
    from torchvision.transforms import v2

    return v2.Compose(torchvision_transforms(recipe, before_float=[]))


def albumentations_compose(recipe: Recipe) -> Any:
    """Translate a recipe to an Albumentations 2 pipeline.

    Returns:
        A pipeline from uint8 [height, width, 3] to a tensor [3, height, width].
    """
    import albumentations as A
    from albumentations.pytorch import ToTensorV2

    transforms = _translate(recipe.operations, A, "albumentations")
    if not any(isinstance(step, Normalize) for step in recipe.operations):
        transforms.append(A.ToFloat(max_value=255))
    return A.Compose([*transforms, ToTensorV2()])


def kornia_modules(recipe: Recipe) -> list[Any]:
    """Translate a recipe to Kornia augmentations for a float batch of images that have one size already."""
    import kornia.augmentation as K

    # The worker's resize to one size replaces a Resize.
    steps = [step for step in recipe.operations if not isinstance(step, Resize)]
    return _translate(steps, K, "kornia")


def check_dali_recipe(recipe: Recipe) -> None:
    """Check that a recipe is like the presets: at most one change of size, first, and Normalize last.

    Raises:
        Unable: The recipe has another form, or an operation that is not translated.
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
    """Add a recipe that `check_dali_recipe` accepts to a DALI graph, and return the graph's new node.

    All frames of a clip get one draw. Sizes change on the device of the decoder; the other operations run on the
    batch's device.

    Args:
        data: Graph node of uint8 images or clips.
        recipe: The recipe to translate.
        device: The device of the batch.
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
