"""Degradation by lossy compression and by downscaling."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import Sampling, above_zero, whole_range
from gpu_aug.ops.distributions.columns import Law, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms, whole_between
from gpu_aug.ops.operation import Operation

__all__ = ["JPEG", "Downscale", "WebP"]


def _qualities(operation: str, field: str, value: Any) -> int | tuple[int, int]:
    low, high = whole_range(operation, field, value, low=1, example="(50, 90)")
    if high > 100:
        raise validation.fault(operation, field, value, "whole numbers up to 100, such as 90")
    return low if low == high else (low, high)


def _draw_quality(u: Uniforms, ends: int | tuple[int, int]) -> Sizes:
    return whole_between(u, (ends, ends) if isinstance(ends, int) else ends)


@dataclass(frozen=True)
class Coded(Operation, abstract=True):
    """Base of operations that encode and decode the image: JPEG and WebP."""

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: the result is 8-bit."""

    random: ClassVar[Random] = {"quality": Law(_draw_quality)}

    quality: Annotated[int | tuple[int, int], _qualities]
    _: KW_ONLY
    channels: Literal["rgb", "bgr"] = "rgb"
    p: float = 1.0


@dataclass(frozen=True)
class JPEG(Coded):
    """Encode as JPEG and decode again, in 8 bits; it runs on the CPU in every engine.

    Args:
        quality: Quality from 1 to 100, or its (smallest, largest) value, each integer equally likely.
        channels: Order of the channels while encoding; "bgr" swaps red and blue, as Albumentations does.
        p: Share of the images that are changed.

    Source: torchvision v2 JPEG; libjpeg with colour at half the resolution. ``p`` is torchvision's
    RandomApply around it.
    """


@dataclass(frozen=True)
class WebP(Coded):
    """Encode as lossy WebP and decode again, in 8 bits; it runs on the CPU in every engine.

    Args:
        quality: Quality from 1 to 100, or its (smallest, largest) value, each integer equally likely.
        channels: Order of the channels while encoding; "bgr" swaps red and blue, as Albumentations does.
        p: Share of the images that are changed.

    Source: Albumentations ImageCompression with compression_type="webp".
    """


@dataclass(frozen=True)
class Downscale(Operation):
    """Make the image smaller and resize it to its size again, in 8 bits.

    Unless both interpolations are "nearest", it runs on the CPU in every engine.

    Args:
        scale: Range of the factor, within [0, 1]. The small image has at least one pixel.
        down: Interpolation for downscaling.
        up: Interpolation for upscaling.
        p: Share of the images that are changed.

    Source: Albumentations Downscale (scale_range, interpolation_pair), OpenCV resize.
    """

    # Measured 0: whole numbers.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: the result is 8-bit."""

    random: ClassVar[Random] = {"scale": Uniform(at_least=1e-6)}

    scale: Annotated[Range, partial(above_zero, high=1, example="(0.25, 0.5)")] = (0.25, 0.25)
    _: KW_ONLY
    down: Sampling = "nearest"
    up: Sampling = "nearest"
    p: float = 0.5

    @property
    def is_nearest(self) -> bool:
        """Whether both interpolations are "nearest"."""
        return self.down == self.up == "nearest"

    def sources(self, params: Params, length: int) -> NDArray[np.int64]:
        """Return the index of the input pixel that each pixel along an axis shows, int64 [B, length], for "nearest"."""
        scale = np.asarray(params["scale"])[:, None]
        small = np.rint(length * scale)
        inverse = np.where(small < 1, length, 1 / scale)
        small = np.maximum(small, 1)
        taken = np.minimum(np.floor(np.arange(length) * (1 / (length / small))), small - 1)
        source: NDArray[np.int64] = np.minimum(np.floor(taken * inverse), length - 1).astype(
            np.int64
        )
        return source
