"""Superpixels painted in one colour."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.blur.kernels import whole_range
from gpu_aug.ops.blur.lens import Sampling, check_sampling
from gpu_aug.ops.distributions.uniform import Sizes, Uniforms, between, whole_between
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

    p_replace: tuple[float, float] = (0.0, 0.1)
    n_segments: tuple[int, int] = (100, 100)
    _: KW_ONLY
    max_size: int | None = 128
    sampling: Sampling = "bilinear"
    p: float = 0.5

    def __post_init__(self) -> None:
        name = "Superpixels"
        if self.max_size is not None and (
            not validation.is_whole(self.max_size) or self.max_size < 1
        ):
            raise validation.fault(
                name, "max_size", self.max_size, "a whole number from 1, or None"
            )
        check_sampling(name, "sampling", self.sampling)
        self._set(
            p_replace=validation.interval(
                name, "p_replace", self.p_replace, low=0, high=1, example="(0.0, 0.1)"
            ),
            n_segments=whole_range(
                name, "n_segments", self.n_segments, low=1, example="(100, 100)"
            ),
            p=validation.probability(name, self.p),
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
