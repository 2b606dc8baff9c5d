"""Converters for warps of torchvision; transforms and transforms.v2 have equal attributes.

Pixels are those of torchvision on tensors; on Pillow images they differ along the border between image and fill.
"""

from typing import Any

from gpu_aug.convert.registry import TORCHVISION, Refused, converts
from gpu_aug.ops.geometric.affine import RandomAffine
from gpu_aug.ops.geometric.elastic import ElasticTransform
from gpu_aug.ops.geometric.perspective import RandomPerspective
from gpu_aug.ops.geometric.rotate import RandomRotation
from gpu_aug.ops.operation import Operation

# Pillow's numbers of interpolations.
_PILLOW = {0: "nearest", 2: "bilinear", 3: "bicubic"}


@converts(TORCHVISION, "RandomAffine")
def _affine(transform: Any) -> Operation | None:
    return RandomAffine(
        tuple(transform.degrees),
        transform.translate,
        transform.scale,
        None if transform.shear is None else tuple(transform.shear),
        center=_center(transform),
        **_border(transform),
    )


@converts(TORCHVISION, "RandomRotation")
def _rotation(transform: Any) -> Operation | None:
    return RandomRotation(
        tuple(transform.degrees),
        expand=bool(transform.expand),
        center=_center(transform),
        **_border(transform),
    )


@converts(TORCHVISION, "RandomPerspective")
def _perspective(transform: Any) -> Operation | None:
    return RandomPerspective(transform.distortion_scale, p=transform.p, **_border(transform))


@converts(TORCHVISION, "ElasticTransform")
def _elastic(transform: Any) -> Operation | None:
    return ElasticTransform(tuple(transform.alpha), tuple(transform.sigma), **_border(transform))


def _center(transform: Any) -> tuple[float, float] | None:
    return None if transform.center is None else (transform.center[0], transform.center[1])


def _border(transform: Any) -> dict[str, Any]:
    mode = transform.interpolation
    name = _PILLOW.get(mode, getattr(mode, "value", mode))
    if name not in ("nearest", "bilinear"):
        raise Refused(
            f"its interpolation {name!r} exists for Pillow images only, and not for tensors",
            "interpolation=InterpolationMode.BILINEAR",
        )
    image, mask = _fills(transform.fill)
    border: dict[str, Any] = {"interpolation": name, "fill": image or 0.0}
    if isinstance(mask, int | float) and mask == int(mask):
        border["fill_mask"] = int(mask)
    if name == "bilinear" and image is not None:
        border["blend"] = "twice"
    return border


def _fills(fill: Any) -> tuple[Any, Any]:
    """Return the fill of images in [0, 1] and the fill of masks; None stands for torchvision's fill=None."""
    if isinstance(fill, dict):
        by_name = {getattr(key, "__name__", key): value for key, value in fill.items()}
        other = by_name.get("others")
        image, mask = by_name.get("Image", by_name.get("Tensor", other)), by_name.get("Mask", other)
    else:
        image = mask = fill
    if isinstance(mask, list | tuple):
        mask = mask[0] if len(set(mask)) == 1 else None
    if isinstance(image, list | tuple):
        if len(image) not in (1, 3):
            raise Refused("its fill has other channels than red, green and blue", "fill=0")
        image = tuple(value / 255 for value in image)
        return (image[0] if len(image) == 1 else image), mask
    return (None if image is None else image / 255), mask
