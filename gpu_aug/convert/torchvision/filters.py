"""Converters for blur, noise, compression and erasing of torchvision; transforms and transforms.v2 have equal attributes."""

from typing import Any

from gpu_aug.convert.containers import unit_fill
from gpu_aug.convert.registry import TORCHVISION, converts
from gpu_aug.ops.blur.blurs import GaussianBlur
from gpu_aug.ops.dropout.erase import RandomErasing
from gpu_aug.ops.noise.compression import JPEG
from gpu_aug.ops.noise.noise import GaussianNoise
from gpu_aug.ops.operation import Operation


@converts(TORCHVISION, "GaussianBlur")
def _blur(transform: Any) -> Operation | None:
    width, height = transform.kernel_size
    low, high = transform.sigma
    return GaussianBlur((int(height), int(width)), (float(low), float(high)))


@converts(TORCHVISION, "GaussianNoise")
def _noise(transform: Any) -> Operation | None:
    return GaussianNoise(transform.mean, transform.sigma, transform.clip)


@converts(TORCHVISION, "JPEG")
def _jpeg(transform: Any) -> Operation | None:
    low, high = transform.quality
    return JPEG((low, high))


@converts(TORCHVISION, "RandomErasing")
def _random_erasing(transform: Any) -> Operation | None:
    value = transform.value
    return RandomErasing(
        transform.p,
        scale=tuple(transform.scale),
        ratio=tuple(transform.ratio),
        value="random" if value is None or isinstance(value, str) else unit_fill(value),
    )
