"""Expansion of compound transforms (of torchvision's weights, timm and users) to basic transforms of torchvision.

Neither library is imported: classes are recognised by the names of their modules, settings by their attributes.
"""

from collections.abc import Callable
from math import exp
from typing import Any

import torch

from gpu_aug.convert.known_code import TO_RGB, does_the_same
from gpu_aug.convert.registry import Refused
from gpu_aug.names import TIMM_LAW, nearest_policy

Expander = Callable[[Any, Any], list[Any]]
"""Takes a compound transform and the module ``torchvision.transforms``; returns basic transforms of that module."""


def expand(transform: Any) -> list[Any] | None:
    """Return the basic transforms that do what a compound one does, in order, or None if it is not known.

    Raises:
        Refused: The transform is timm's, and torchvision has no equivalent.
    """
    module, name = type(transform).__module__, type(transform).__name__
    if does_the_same(getattr(transform, "lambd", transform), TO_RGB):
        from torchvision.transforms import v2

        return [v2.RGB()]
    if module == "torchvision.transforms._presets":
        expander = _WEIGHTS.get(name)
    elif module.partition(".")[0] == "timm":
        expander = _TIMM.get(name)
    else:
        return None
    if expander is None:
        return None
    from torchvision import transforms

    return expander(transform, transforms)


def _image_classification(preset: Any, transforms: Any) -> list[Any]:
    return [
        _resize(preset, transforms),
        transforms.CenterCrop(preset.crop_size),
        *_normalized(preset, transforms),
    ]


def _segmentation(preset: Any, transforms: Any) -> list[Any]:
    return [
        *([_resize(preset, transforms)] if preset.resize_size else []),
        *_normalized(preset, transforms),
    ]


def _object_detection(_: Any, transforms: Any) -> list[Any]:
    return [transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float32)]


def _resize(preset: Any, transforms: Any) -> Any:
    antialias = getattr(preset, "antialias", False)  # of videos it is off
    return transforms.Resize(preset.resize_size, preset.interpolation, antialias=antialias)


def _normalized(preset: Any, transforms: Any) -> list[Any]:
    return [*_object_detection(preset, transforms), transforms.Normalize(preset.mean, preset.std)]


def _resized_crop(transform: Any, transforms: Any) -> list[Any]:
    """Return the RandomResizedCrop of torchvision that draws like timm's.

    With "random" interpolation it is a random choice among several crops, equally likely.
    """
    modes = transform.interpolation
    crops = [
        transforms.RandomResizedCrop(transform.size, transform.scale, transform.ratio, mode)
        for mode in (modes if isinstance(modes, list | tuple) else [modes])
    ]
    return crops if len(crops) == 1 else [transforms.RandomChoice(crops)]


def _erasing(transform: Any, transforms: Any) -> list[Any]:
    if transform.rand_color or (transform.min_count, transform.max_count) != (1, 1):
        raise Refused(
            "it erases several rectangles, or fills one with a colour of normal law",
            "mode='pixel' and max_count=1, or gpu_aug.RandomErasing()",
        )
    low, high = transform.log_aspect_ratio
    return [
        transforms.RandomErasing(
            transform.probability,
            (transform.min_area, transform.max_area),
            (exp(low), exp(high)),
            "random" if transform.per_pixel else 0,
        )
    ]


def _rand_augment(transform: Any, _: Any) -> list[Any]:
    raise Refused(TIMM_LAW, nearest_policy(transform.num_layers, transform.ops[0].magnitude))


def _other_policy(nearest: str) -> Expander:
    def refuse(*_: Any) -> list[Any]:
        raise Refused(TIMM_LAW, nearest)

    return refuse


_WEIGHTS: dict[str, Expander] = {
    "ImageClassification": _image_classification,
    "ObjectDetection": _object_detection,
    "SemanticSegmentation": _segmentation,
    "VideoClassification": _image_classification,
}

_TIMM: dict[str, Expander] = {
    "AugMixAugment": _other_policy("gpu_aug.AugMix()"),
    "AutoAugment": _other_policy("gpu_aug.AutoAugment()"),
    "MaybePILToTensor": lambda _, transforms: [transforms.PILToTensor()],
    "MaybeToTensor": lambda _, transforms: [transforms.ToTensor()],
    "RandAugment": _rand_augment,
    "RandomErasing": _erasing,
    "RandomResizedCropAndInterpolation": _resized_crop,
    "ToNumpy": lambda _, transforms: [transforms.PILToTensor()],
}
