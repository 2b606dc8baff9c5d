"""Converters for warps of torchvision; transforms and transforms.v2 have equal attributes.

Pixels are those of torchvision on tensors; on Pillow images they differ along the border between image and fill.
"""

from typing import Any

from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import TORCHVISION, Refused, converts
from gpu_aug.convert.torchvision.geometry import fills
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
    image, mask = fills(transform)
    return warping(transform, image) | {"fill_mask": mask}


def interpolation_name(transform: Any) -> Any:
    """Return the interpolation of a transform in torchvision's words, also if it was given as a number of Pillow."""
    mode = transform.interpolation
    return _PILLOW.get(mode, getattr(mode, "value", mode))


def warping(transform: Any, fill: Any) -> dict[str, Any]:
    """Return how a warp interpolates images and fills their border, as keyword arguments of WarpWithBorder.

    Args:
        transform: The transform, for its interpolation.
        fill: Its fill of images, in the units of uint8 images.
    """
    name = interpolation_name(transform)
    if name not in ("nearest", "bilinear"):
        raise Refused(
            f"its interpolation {name!r} exists for Pillow images only, and not for tensors",
            "interpolation=InterpolationMode.BILINEAR",
            runs=True,
        )
    blends_twice = name == "bilinear" and fill is not None
    return {
        "interpolation": name,
        "fill": unit_fill(fill),
        "blend": "twice" if blends_twice else "once",
    }
