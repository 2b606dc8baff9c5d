"""Superpixels painted in one colour."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import whole_range
from gpu_aug.ops.blur.lens import Sampling
from gpu_aug.ops.distributions.columns import Drawn, Integer, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes
from gpu_aug.ops.operation import Operation

__all__ = ["Superpixels"]


@dataclass(frozen=True)
class Superpixels(Operation):
    """Give the pixels of some segments their mean, in 8 bits; runs on the CPU in every engine.

    Args:
        p_replace: Range of the probability that a segment is replaced.
        n_segments: Smallest and largest number of segments, about.
        max_size: A larger image is segmented at this length of its longer side; None is never.
        sampling: Interpolation for that resize.
        p: Share of the images that are changed.

    Source: Albumentations Superpixels.
    """

    # The same code in all engines.
    tolerance: ClassVar[float] = 0.0
    needs_unit_range: ClassVar[bool] = True
    rounds_to_8_bits: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "share": Uniform("p_replace"),
        "num_segments": Integer("n_segments"),
        "dice": Numbers(lambda self: self.n_segments[1]),
    }

    p_replace: Annotated[Range, validation.Interval(low=0, high=1, example="(0.0, 0.1)")] = (
        0.0,
        0.1,
    )
    n_segments: Annotated[tuple[int, int], partial(whole_range, low=1, example="(100, 100)")] = (
        100,
        100,
    )
    _: KW_ONLY
    max_size: Annotated[
        int | None, validation.optional(validation.Integer(low=1, example="128"))
    ] = 128
    sampling: Sampling = "bilinear"
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``num_segments``, int64 [B], and ``replace``, bool [B, largest n_segments]."""
        return {
            "num_segments": drawn["num_segments"],
            "replace": drawn["dice"] < drawn["share"][:, None],
        }
