"""The median of neighbouring pixels."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, ClassVar

from gpu_aug.ops.blur.kernels import odd_between, odd_range
from gpu_aug.ops.distributions.columns import Law, Random
from gpu_aug.ops.operation import Operation

__all__ = ["MedianBlur"]


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
    rounds_to_8_bits: ClassVar[bool] = True
    any_channels: ClassVar[bool] = True

    moves_pixels_only: ClassVar[bool] = True
    """Always: a median is one of the values."""

    random: ClassVar[Random] = {"size": Law(odd_between, "kernel_size")}

    kernel_size: Annotated[int | tuple[int, int], odd_range] = (3, 7)
    _: KW_ONLY
    p: float = 0.5
