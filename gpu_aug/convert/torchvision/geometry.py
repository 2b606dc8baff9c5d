"""Converters for flips, crops, borders and resizes of torchvision, transforms and transforms.v2.

Pixels are those of torchvision on tensors; on PIL images InterpolationMode.NEAREST takes other pixels.
"""

from typing import Any

from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import TORCHVISION, Refused, converts
from gpu_aug.ops.geometric import crops, iou_crop, pads, random_resizes, resized_crops, resizes
from gpu_aug.ops.geometric.flips import HorizontalFlip, VerticalFlip
from gpu_aug.ops.operation import Operation

_INTERPOLATIONS = {
    "nearest": "nearest_floor",
    "nearest-exact": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    0: "nearest_floor",  # Pillow's numbers
    2: "bilinear",
    3: "bicubic",
}


def resampling(transform: Any) -> dict[str, Any]:
    """Return how images and masks are interpolated, as keyword arguments of Resampling."""
    mode = transform.interpolation
    mode = getattr(mode, "value", mode)
    if mode not in _INTERPOLATIONS:
        raise Refused(f"interpolation {mode!r} has no equal", "InterpolationMode.BICUBIC")
    return {
        "interpolation": _INTERPOLATIONS[mode],
        "antialias": bool(transform.antialias),
        "mask_interpolation": "nearest_floor",
    }


def padding(transform: Any) -> dict[str, Any]:
    """Return the padding of images and masks, as keyword arguments of PaddedCrop."""
    mode = getattr(transform, "padding_mode", "constant")
    if mode != "constant":
        return {"padding_mode": mode}
    image, mask = fills(transform)
    return {"fill": unit_fill(image), "fill_mask": mask}


def fills(transform: Any) -> tuple[Any, int]:
    """Return the fill of images, None if there is none, and the fill of masks, 0 if it is not one number."""
    image = mask = transform.fill
    if isinstance(image, dict):
        by_name = {getattr(key, "__name__", key): value for key, value in image.items()}
        others = by_name.get("others")
        image, mask = (
            by_name.get("Image", by_name.get("Tensor", others)),
            by_name.get("Mask", others),
        )
    if isinstance(mask, list | tuple):
        mask = mask[0] if len(set(mask)) == 1 else 0
    # Images are filled in units of white = 255 here, masks with the value as it was written.
    return image, int((mask or 0) * getattr(transform, "white", 255.0) / 255)


def pair(value: Any) -> Any:
    """Return a size as (height, width), or as one number if it has only one."""
    if isinstance(value, list | tuple):
        return int(value[0]) if len(value) == 1 else tuple(int(side) for side in value)
    return value


TORCHVISION.update(
    {
        "RandomHorizontalFlip": lambda given: HorizontalFlip(given.p),
        "RandomVerticalFlip": lambda given: VerticalFlip(given.p),
    }
)


@converts(TORCHVISION, "CenterCrop")
def _center_crop(transform: Any) -> Operation | None:
    return crops.CenterCrop(pair(transform.size))


@converts(TORCHVISION, "RandomCrop")
def _random_crop(transform: Any) -> Operation | None:
    around = transform.padding
    if around is not None and not isinstance(around, int):
        around = tuple(around)
        if _is_v2(transform):  # it keeps left, right, top, bottom
            around = (around[0], around[2], around[1], around[3])
        elif len(around) == 1:
            around = around[0]
    beside = padding(transform)
    if (
        around
        and transform.pad_if_needed
        and beside.get("padding_mode") in ("reflect", "symmetric")
        and not _is_v2(transform)
    ):
        raise Refused("it mirrors what it has padded already", "v2.RandomCrop")
    return crops.RandomCrop(pair(transform.size), around or None, **beside)


@converts(TORCHVISION, "Pad")
def _pad(transform: Any) -> Operation | None:
    around = transform.padding
    if not isinstance(around, int):
        around = around[0] if len(around) == 1 else tuple(around)
    return pads.Pad(around, **padding(transform))


@converts(TORCHVISION, "RandomZoomOut")
def _zoom_out(transform: Any) -> Operation | None:
    sides = tuple(transform.side_range)
    return pads.RandomZoomOut(side_range=sides, p=transform.p, **padding(transform))


@converts(TORCHVISION, "Resize")
def _resize(transform: Any) -> Operation | None:
    way = resampling(transform)
    return resizes.Resize(pair(transform.size), max_size=transform.max_size, **way)


@converts(TORCHVISION, "RandomResizedCrop")
def _random_resized_crop(transform: Any) -> Operation | None:
    return resized_crops.RandomResizedCrop(
        pair(transform.size),
        scale=tuple(transform.scale),
        ratio=tuple(transform.ratio),
        **resampling(transform),
    )


@converts(TORCHVISION, "RandomIoUCrop")
def _iou_crop(transform: Any) -> Operation | None:
    ends = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio", "trials")
    given = {name: getattr(transform, name) for name in ends}
    return iou_crop.RandomIoUCrop(**given, sampler_options=list(transform.options))


@converts(TORCHVISION, "RandomResize")
def _random_resize(transform: Any) -> Operation | None:
    way = resampling(transform)
    return random_resizes.RandomResize(transform.min_size, transform.max_size, **way)


@converts(TORCHVISION, "RandomShortestSize")
def _shortest_size(transform: Any) -> Operation | None:
    lengths = tuple(transform.min_size)
    return random_resizes.RandomShortestSize(lengths, transform.max_size, **resampling(transform))


@converts(TORCHVISION, "ScaleJitter")
def _scale_jitter(transform: Any) -> Operation | None:
    target, shares = tuple(transform.target_size), tuple(transform.scale_range)
    return random_resizes.ScaleJitter(target, shares, **resampling(transform))


def _is_v2(transform: Any) -> bool:
    return type(transform).__module__.startswith("torchvision.transforms.v2")
