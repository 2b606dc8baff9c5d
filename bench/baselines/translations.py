"""Translate our recipes to other libraries, as their users would write them.

The operations of the presets are translated, for Albumentations also all that `to_albumentations` exports, and for DALI those
of Albumentations' comparison with DALI. If one is missing in a library, its baseline is Unable.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bench.compare.task import Unable
from gpu_aug import (
    CLAHE,
    JPEG,
    Affine,
    CenterCrop,
    ColorJitter,
    Equalize,
    Erasing,
    GaussNoise,
    HorizontalFlip,
    HueSaturationValue,
    Normalize,
    Operation,
    Pad,
    RandomBrightnessContrast,
    RandomCrop,
    RandomGaussianBlur,
    RandomResizedCrop,
    RandomShortestSize,
    Recipe,
    RecipeError,
    Resize,
    Rotate,
    SaltAndPepper,
    SmallestMaxSize,
    VerticalFlip,
)
from gpu_aug.convert import to_albumentations

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
        if transform is None and library == "albumentations":
            transform = _exported(step)
        if transform is None:
            raise _unknown(step)
        transforms.append(transform)
    return transforms


def _exported(step: Operation) -> Any:
    try:
        return to_albumentations(Recipe([step]))
    except RecipeError:
        return None


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
    """Check that DALI's nodes for a recipe are written, and that Normalize comes last.

    Raises:
        Unable: The recipe has another form, or an operation that is not translated.
    """
    *steps, last = recipe.operations
    for step in steps:
        match step:
            case Resize(max_size=None) | RandomShortestSize(min_size=tuple(), max_size=None):
                continue
            case RandomCrop(padding=None) | CenterCrop() | HorizontalFlip():
                continue
            case _ if type(step) in _DALI_NODES and not isinstance(step, _WITH_MAX_SIZE):
                continue
        raise _unknown(step)
    if not isinstance(last, Normalize):
        raise _unknown(last)


def dali_steps(data: Any, recipe: Recipe, device: torch.device, *, layout: str = "CHW") -> Any:
    """Add a recipe that `check_dali_recipe` accepts to a DALI graph, and return the graph's new node.

    All frames of a clip get one draw. The first operation, which mostly changes the size, runs on the device of the
    decoder; the others run on the batch's device.

    Args:
        data: Graph node of uint8 images or clips.
        recipe: The recipe to translate.
        device: The device of the batch.
        layout: "CHW" for images, "FCHW" for clips.
    """
    from nvidia.dali import fn, types

    *steps, normalize = recipe.operations
    assert isinstance(normalize, Normalize)
    options: dict[str, Any] = {}
    for number, step in enumerate(steps):
        match step:
            case RandomCrop() | CenterCrop():
                place = {} if isinstance(step, CenterCrop) else _random_place(fn)
                # A crop costs nothing in the last node, unless an operation before that one needs it.
                if any(type(later) in _DALI_NODES for later in steps[number:]):
                    data = fn.crop(data, crop=step.size, **place)
                else:
                    options |= place
            case HorizontalFlip():
                options["mirror"] = fn.random.coin_flip(probability=step.p)
            case _:
                data = _DALI_NODES[type(step)](fn, data, step)
        if number == 0 and device.type == "cuda":
            data = data.gpu()
    return fn.crop_mirror_normalize(
        data,
        dtype=types.FLOAT,
        output_layout=layout,
        crop=recipe.fixed_size,
        mean=[255 * value for value in normalize.mean],
        std=[255 * value for value in normalize.std],
        **options,
    )


def _random_place(fn: Any) -> dict[str, Any]:
    return {f"crop_pos_{axis}": fn.random.uniform(range=[0.0, 1.0]) for axis in "xy"}


def _uniform(fn: Any, ends: Any, factor: float = 1.0) -> Any:
    """Return a node of random numbers between two ends times a factor; for equal ends, the number."""
    low, high = (factor * end for end in ends)
    return fn.random.uniform(range=[low, high]) if low < high else low


def _dali_affine(fn: Any, data: Any, step: Affine) -> Any:
    """Scale, shear, turn and shift about the centre of the image; only the angle is random."""
    height, width = _dali_sides(data)
    center = fn.stack(width / 2, height / 2)
    matrix = fn.transforms.scale(scale=[low for low, _ in step.scale], center=center)
    matrix = fn.transforms.shear(matrix, angles=[low for low, _ in step.shear], center=center)
    matrix = fn.transforms.rotation(matrix, angle=_uniform(fn, step.rotate), center=center)
    shift = [float(low) for low, _ in step.translate_px]
    matrix = fn.transforms.translation(matrix, offset=shift)
    return fn.warp_affine(data, matrix=matrix, inverse_map=False, fill_value=0)


def _dali_pad(fn: Any, data: Any, step: Pad) -> Any:
    """Pad all sides alike: fn.pad pads at the ends only, a crop that is too large also at the starts."""
    left, top, _, _ = step.padding  # type: ignore[misc]
    height, width = _dali_sides(data)
    size = {"crop_h": height + 2 * top, "crop_w": width + 2 * left}
    return fn.crop(data, **size, out_of_bounds_policy="pad", fill_values=0)


def _dali_sides(data: Any) -> tuple[Any, Any]:
    from nvidia.dali import types

    sides = data.shape(dtype=types.FLOAT)
    return sides[0], sides[1]


def _dali_rotate(fn: Any, data: Any, step: Rotate) -> Any:
    from nvidia.dali import types

    kind = types.INTERP_NN if step.interpolation == "nearest" else types.INTERP_LINEAR
    angle = _uniform(fn, step.limit)
    return fn.rotate(data, angle=angle, keep_size=True, fill_value=0, interp_type=kind)


def _dali_jitter(fn: Any, images: Any, jitter: ColorJitter) -> Any:
    chosen = fn.random.coin_flip(probability=jitter.p)
    hue = jitter.hue if isinstance(jitter.hue, tuple) else (-jitter.hue, jitter.hue)

    def factor(ends: Any) -> Any:
        return 1 + chosen * (_uniform(fn, ends) - 1)

    return fn.color_twist(
        images,
        brightness=factor(jitter.brightness),
        contrast=factor(jitter.contrast),
        saturation=factor(jitter.saturation),
        hue=chosen * _uniform(fn, hue, 360),
    )


# Operations that are translated to DALI only if their field max_size is None.
_WITH_MAX_SIZE = (Resize, RandomShortestSize)

_DALI_NODES: Mapping[type[Operation], Callable[[Any, Any, Any], Any]] = {
    RandomResizedCrop: lambda fn, data, op: fn.random_resized_crop(
        data, size=op.size, random_area=op.scale, random_aspect_ratio=op.ratio, antialias=op.antialias
    ),
    RandomShortestSize: lambda fn, data, op: fn.resize(
        data, resize_shorter=fn.random.uniform(values=[float(length) for length in op.min_size]), antialias=op.antialias
    ),
    Resize: lambda fn, data, op: fn.resize(
        data, antialias=op.antialias, **{"size" if isinstance(op.size, tuple) else "resize_shorter": op.size}
    ),
    SmallestMaxSize: lambda fn, data, op: fn.resize(data, resize_shorter=op.max_size, antialias=op.antialias),
    ColorJitter: _dali_jitter,
    # From here on: with the parameters of Albumentations' benchmark, and probability 1.
    Affine: _dali_affine,
    # The limit is a constant in DALI; the original takes the lowest.
    CLAHE: lambda fn, data, op: fn.clahe(data, tiles_x=8, tiles_y=8, clip_limit=op.clip_limit[0]),
    Equalize: lambda fn, data, _: fn.equalize(data),
    # Sides of 0.14 to 0.57: areas of 0.02 to 0.33.
    Erasing: lambda fn, data, _: fn.erase(
        data,
        anchor=fn.random.uniform(range=[0.0, 0.4], shape=[2]),
        shape=fn.random.uniform(range=[0.14, 0.57], shape=[2]),
        normalized=True,
        axis_names="HW",
    ),
    GaussNoise: lambda fn, data, op: fn.noise.gaussian(data, stddev=_uniform(fn, op.std_range, 255)),
    # OpenCV counts hues in steps of 2 degrees; DALI multiplies the saturation, to which Albumentations adds.
    HueSaturationValue: lambda fn, data, op: fn.hsv(
        data, hue=_uniform(fn, op.hue_shift, 2), saturation=1 + _uniform(fn, op.sat_shift, 1 / 255)
    ),
    JPEG: lambda fn, data, op: fn.jpeg_compression_distortion(data, quality=op.quality),
    Pad: _dali_pad,
    RandomBrightnessContrast: lambda fn, data, op: fn.brightness_contrast(
        data,
        brightness_shift=_uniform(fn, op.brightness_limit),
        contrast=1 + _uniform(fn, op.contrast_limit),
        contrast_center=0.0,
    ),
    RandomGaussianBlur: lambda fn, data, op: fn.gaussian_blur(
        data, window_size=op.kernel_size[0], sigma=_uniform(fn, op.sigma)
    ),
    Rotate: _dali_rotate,
    SaltAndPepper: lambda fn, data, op: fn.noise.salt_and_pepper(
        data, prob=_uniform(fn, op.amount), salt_vs_pepper=_uniform(fn, op.salt_vs_pepper)
    ),
    VerticalFlip: lambda fn, data, op: fn.flip(data, horizontal=0, vertical=fn.random.coin_flip(probability=op.p)),
}  # fmt: skip
"""Functions that add the node of an operation, given nvidia.dali.fn, a node of images and the operation."""


def _several(lengths: int | tuple[int, ...]) -> list[int]:
    return [lengths] if isinstance(lengths, int) else list(lengths)


def _unknown(step: Operation) -> Unable:
    name = type(step).__name__
    return Unable(
        f"this baseline is not written for {name}, only for the operations of the presets"
    )
