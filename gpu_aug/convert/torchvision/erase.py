"""Painting over parts of images from torchvision; transforms and transforms.v2."""

from typing import Any

from gpu_aug.convert.registry import TORCHVISION, converts
from gpu_aug.convert.torchvision.geometry import unit_fill
from gpu_aug.ops.dropout.erase import RandomErasing
from gpu_aug.ops.operation import Operation


@converts(TORCHVISION, "RandomErasing")
def _random_erasing(transform: Any) -> Operation | None:
    value = transform.value
    return RandomErasing(
        transform.p,
        scale=tuple(transform.scale),
        ratio=tuple(transform.ratio),
        value="random" if value is None or isinstance(value, str) else unit_fill(value),
    )
