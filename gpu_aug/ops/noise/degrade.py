"""Operations that take something away from an image, defined on 8-bit values."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gpu_aug.draws import Params
from gpu_aug.ops import fields
from gpu_aug.ops.blur.kernels import above_zero, odd_between, odd_range, whole_range
from gpu_aug.ops.blur.lens import Sampling, check_sampling
from gpu_aug.ops.laws.uniform import Sizes, Uniforms, between, whole_between
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import keys

__all__ = ["JPEG", "Downscale", "MedianBlur", "Spatter", "Superpixels", "WebP"]


@dataclass(frozen=True)
class MedianBlur(Operation):
    """Take the median over a square around each pixel, in 8 bits; the image's edge is repeated.

    Args:
        kernel_size: Odd width of the square in pixels, or its smallest and largest value, odd too.
        p: Share of the images that are changed.

    Source: Albumentations MedianBlur (blur_limit), OpenCV medianBlur.
    """

    # Measured 0: whole numbers.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: a median is one of the values."""

    num_uniforms: ClassVar[int] = 2
    """The gate and the size."""

    kernel_size: int | tuple[int, int] = (3, 7)
    _: KW_ONLY
    p: float = 0.5

    def __post_init__(self) -> None:
        self._set(
            kernel_size=odd_range("MedianBlur", "kernel_size", self.kernel_size),
            p=fields.probability("MedianBlur", self.p),
        )

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``size``, int64 [B]."""
        return {"apply": u[:, 0] < self.p, "size": odd_between(u[:, 1], self.kernel_size)}


@dataclass(frozen=True)
class Coded(Operation, abstract=True):
    """Encodes and decodes; the base of JPEG and WebP."""

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: the result is 8-bit."""

    num_uniforms: ClassVar[int] = 2
    """The gate and the quality."""

    quality: int | tuple[int, int]
    _: KW_ONLY
    channels: Literal["rgb", "bgr"] = "rgb"
    p: float = 1.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        low, high = whole_range(name, "quality", self.quality, low=1, example="(50, 90)")
        if high > 100:
            raise fields.fault(name, "quality", self.quality, "whole numbers up to 100, such as 90")
        if self.channels not in ("rgb", "bgr"):
            raise fields.fault(name, "channels", self.channels, "'rgb' or 'bgr'")
        self._set(quality=low if low == high else (low, high), p=fields.probability(name, self.p))

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``quality``, int64 [B]."""
        ends = (self.quality, self.quality) if isinstance(self.quality, int) else self.quality
        return {"apply": u[:, 0] < self.p, "quality": whole_between(u[:, 1], ends)}


@dataclass(frozen=True)
class JPEG(Coded):
    """Encode as JPEG and decode, in 8 bits; runs on the CPU in every engine.

    Args:
        quality: A whole number from 1 to 100, or the smallest and the largest, all equally likely.
        channels: "bgr" takes red for blue and blue for red while encoding, as Albumentations does.
        p: Share of the images that are changed.

    Source: torchvision v2 JPEG; libjpeg with colour at half the resolution. ``p`` is torchvision's
    RandomApply around it.
    """


@dataclass(frozen=True)
class WebP(Coded):
    """Encode as lossy WebP and decode, in 8 bits; runs on the CPU in every engine.

    Args:
        quality: A whole number from 1 to 100, or the smallest and the largest, all equally likely.
        channels: "bgr" takes red for blue and blue for red while encoding, as Albumentations does.
        p: Share of the images that are changed.

    Source: Albumentations ImageCompression with compression_type="webp".
    """


@dataclass(frozen=True)
class Downscale(Operation):
    """Make the image smaller and as large as before again, in 8 bits.

    Unless both samplings are "nearest", it runs on the CPU in every engine.

    Args:
        scale: Range of the factor within [0, 1]. The small image has at least one pixel.
        down: How it is made smaller.
        up: How it is made larger.
        p: Share of the images that are changed.

    Source: Albumentations Downscale (scale_range, interpolation_pair), OpenCV resize.
    """

    # Measured 0: whole numbers.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: the result is 8-bit."""

    num_uniforms: ClassVar[int] = 2
    """The gate and the factor."""

    scale: tuple[float, float] = (0.25, 0.25)
    _: KW_ONLY
    down: Sampling = "nearest"
    up: Sampling = "nearest"
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Downscale"
        check_sampling(name, "down", self.down)
        check_sampling(name, "up", self.up)
        self._set(
            scale=above_zero(name, "scale", self.scale, high=1, example="(0.25, 0.5)"),
            p=fields.probability(name, self.p),
        )

    @property
    def is_nearest(self) -> bool:
        """Whether both samplings are "nearest"."""
        return self.down == self.up == "nearest"

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``scale``, float64 [B]."""
        return {"apply": u[:, 0] < self.p, "scale": np.maximum(between(u[:, 1], self.scale), 1e-6)}

    def sources(self, params: Params, length: int) -> NDArray[np.int64]:
        """Return where the pixels of an axis come from with "nearest" samplings, int64 [B, length]."""
        scale = np.asarray(params["scale"])[:, None]
        small = np.rint(length * scale)
        inverse = np.where(small < 1, length, 1 / scale)
        small = np.maximum(small, 1)
        place = np.minimum(np.floor(np.arange(length) * (1 / (length / small))), small - 1)
        source: NDArray[np.int64] = np.minimum(np.floor(place * inverse), length - 1).astype(
            np.int64
        )
        return source


@dataclass(frozen=True)
class Superpixels(Operation):
    """Give the pixels of some segments their mean, in 8 bits; runs on the CPU in every engine.

    Args:
        p_replace: Range of the probability that a segment is replaced.
        n_segments: Smallest and largest number of segments, about.
        max_size: A larger image is segmented at this length of its longer side; None is never.
        sampling: How it is resized for that.
        p: Share of the images that are changed.

    Source: Albumentations Superpixels.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    p_replace: tuple[float, float] = (0.0, 0.1)
    n_segments: tuple[int, int] = (100, 100)
    _: KW_ONLY
    max_size: int | None = 128
    sampling: Sampling = "bilinear"
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Superpixels"
        if self.max_size is not None and (not fields.is_whole(self.max_size) or self.max_size < 1):
            raise fields.fault(name, "max_size", self.max_size, "a whole number from 1, or None")
        check_sampling(name, "sampling", self.sampling)
        self._set(
            p_replace=fields.interval(
                name, "p_replace", self.p_replace, low=0, high=1, example="(0.0, 0.1)"
            ),
            n_segments=whole_range(
                name, "n_segments", self.n_segments, low=1, example="(100, 100)"
            ),
            p=fields.probability(name, self.p),
        )

    @property
    def num_uniforms(self) -> int:
        """The gate, the probability, the number, and one per segment."""
        return 3 + self.n_segments[1]

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``num_segments``, int64 [B], and ``replace``, bool [B, largest n_segments]."""
        return {
            "apply": u[:, 0] < self.p,
            "num_segments": whole_between(u[:, 2], self.n_segments),
            "replace": u[:, 3:] < between(u[:, 1:2], self.p_replace),
        }


@dataclass(frozen=True)
class Spatter(Operation):
    """Spatter rain or mud on the lens; runs on the CPU in every engine.

    Args:
        mean: Range of the mean of the normal field that becomes the liquid, within [0, 1].
        std: Range of its standard deviation within [0, 1].
        gauss_sigma: Range of the standard deviation of its blur, in pixels.
        cutout_threshold: Range of the value below which there is no liquid, within [0, 1].
        intensity: Range of the strength within [0, 1].
        mode: "rain" or "mud".
        color: Colour of the liquid, three numbers in [0, 1]; None is a light blue or a brown.
        p: Share of the images that are changed.

    Source: Albumentations Spatter.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True

    num_uniforms: ClassVar[int] = 8
    """The gate, the key and five numbers."""

    mean: tuple[float, float] = (0.65, 0.65)
    std: tuple[float, float] = (0.3, 0.3)
    gauss_sigma: tuple[float, float] = (2.0, 2.0)
    cutout_threshold: tuple[float, float] = (0.68, 0.68)
    intensity: tuple[float, float] = (0.6, 0.6)
    _: KW_ONLY
    mode: Literal["rain", "mud"] = "rain"
    color: tuple[float, float, float] | None = None
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Spatter"
        if self.mode not in ("rain", "mud"):
            raise fields.fault(name, "mode", self.mode, "'rain' or 'mud'")
        values: dict[str, Any] = {}
        for field in _SPATTERED:
            high = np.inf if field == "gauss_sigma" else 1
            values[field] = fields.interval(
                name, field, getattr(self, field), low=0, high=high, example="(0.6, 0.6)"
            )
        if self.color is not None:
            values["color"] = fields.numbers(
                name, "color", self.color, count=3, example="(0.1, 0.2, 0.2)"
            )
        self._set(p=fields.probability(name, self.p), **values)

    def draw(self, u: Uniforms, sizes: Sizes) -> Params:  # noqa: ARG002 - any size
        """Draw ``key``, uint32 [B, 2], and a number for each range, float64 [B]."""
        drawn = {
            field: between(u[:, 3 + place], getattr(self, field))
            for place, field in enumerate(_SPATTERED)
        }
        return {"apply": u[:, 0] < self.p, "key": keys(u[:, 1:3]), **drawn}


_SPATTERED = ("mean", "std", "gauss_sigma", "cutout_threshold", "intensity")
