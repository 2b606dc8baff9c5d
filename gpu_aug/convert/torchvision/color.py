"""Converters for color transforms of torchvision; transforms and transforms.v2 have equal attributes.

Thresholds are in 0 to 255, as for PIL images and uint8 tensors.
"""

from typing import Any

from gpu_aug.convert.registry import THREE_EQUAL, TORCHVISION, Changed, Refused, converts, refuses
from gpu_aug.ops.color.adjust import Grayscale, Invert, Sharpness, Solarize
from gpu_aug.ops.color.jitter import ColorJitter, RandomPhotometricDistort
from gpu_aug.ops.color.lookup_tables import AutoContrast, Equalize, Posterize
from gpu_aug.ops.color.matrices import ChannelShuffle
from gpu_aug.ops.color.normalize import Normalize
from gpu_aug.ops.operation import Operation


@converts(TORCHVISION, "ColorJitter")
def _jitter(transform: Any) -> Operation | None:
    names = ("brightness", "contrast", "saturation", "hue")
    ranges = {name: getattr(transform, name) for name in names}
    given: dict[str, Any] = {name: tuple(ends) for name, ends in ranges.items() if ends is not None}
    return ColorJitter(**given) if given else None


@converts(TORCHVISION, "Grayscale")
def _grayscale(transform: Any) -> Operation | Changed | None:
    if transform.num_output_channels == 1:
        return Changed(Grayscale(1.0), THREE_EQUAL)
    return Grayscale(1.0)


TORCHVISION.update(
    {
        "RandomAdjustSharpness": lambda given: Sharpness(given.sharpness_factor, given.p),
        "RandomAutocontrast": lambda given: AutoContrast(given.p),
        "RandomChannelPermutation": lambda _: ChannelShuffle(1.0),
        "RandomEqualize": lambda given: Equalize(given.p),
        "RandomGrayscale": lambda given: Grayscale(given.p),
        "RandomInvert": lambda given: Invert(given.p),
    }
)


@converts(TORCHVISION, "RandomPosterize")
def _posterize(transform: Any) -> Operation | None:
    bits = transform.bits
    if not isinstance(bits, int) or not 0 <= bits <= 8:
        raise Refused(f"its bits must be a whole number from 0 to 8, got {bits!r}")
    return Posterize(bits, transform.p)


@converts(TORCHVISION, "RandomSolarize")
def _solarize(transform: Any) -> Operation | None:
    threshold = transform.threshold / 255
    return None if threshold > 1 else Solarize(max(threshold, 0.0), transform.p)


@converts(TORCHVISION, "RandomPhotometricDistort")
def _distort(transform: Any) -> Operation | None:
    names = ("brightness", "contrast", "saturation", "hue")
    ranges = {name: tuple(getattr(transform, name)) for name in names}
    return RandomPhotometricDistort(**ranges, p=transform.p)


@converts(TORCHVISION, "Normalize")
def _normalize(transform: Any) -> Operation | None:
    mean, std = (
        tuple(map(_decimal, [values] if isinstance(values, int | float) else values))
        for values in (transform.mean, transform.std)
    )
    return Normalize(mean, std)


def _decimal(value: Any) -> float:
    """Return a number as the user wrote it, for example 0.485, which a float32 tensor holds as 0.4850000143."""
    if hasattr(value, "numpy"):
        return float(str(value.numpy()))
    return float(value)


refuses(
    TORCHVISION,
    "it mixes all pixels of an image by one matrix",
    "LinearTransformation",
    nearest="gpu_aug.Normalize()",
)
