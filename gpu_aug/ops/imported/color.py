"""Colour operations: matrices computed from the values of each image, and stains of histology."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.color.matrices import ColorMatrix, Statistics, normals
from gpu_aug.ops.distributions.columns import Drawn, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, whole_below
from gpu_aug.ops.operation import Operation

__all__ = ["FancyPCA", "HEStain", "NormalizePerImage"]

_EPSILON = 1e-4 / 255  # Albumentations adds 0.0001 to values of 0 to 255
_NUM_SWEEPS = 8  # of the Jacobi method; 5 are enough in double precision


@dataclass(frozen=True)
class FancyPCA(ColorMatrix):
    """Change colours along the principal axes of the colours of each image.

    Red is changed along the axis with the largest variance, green and blue along the next ones. The change is the distance of the
    channel from its mean, times that variance, times a normal number.

    Args:
        alpha: Standard deviation of the three normal numbers.
        p: Share of the images that are changed.

    Source: Albumentations FancyPCA. Unlike the method of Krizhevsky et al. 2012, it does not rotate colours to the axes first. It
    leaves the sign of an axis to the linear algebra library; here the largest component of each axis is positive, which makes no
    difference on average because the normal numbers are as often negative.
    """

    reads_image: ClassVar[bool] = True
    """Always."""

    random: ClassVar[Random] = {"stretch": Numbers(4)}

    alpha: Annotated[float, validation.Number(low=0, example="0.1")] = 0.1
    _: KW_ONLY
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``stretch``, float64 [B, 3]: a number for each axis, from the largest variance to the smallest."""
        stretch = self.alpha * normals(drawn["stretch"])[:, :3]
        return {"stretch": stretch}

    def image_matrices(self, params: dict[str, Tensor], images: Statistics) -> Tensor:
        """Return the matrices, float64 [n, 3, 4], which leave the mean of the image unchanged."""
        variances, axes = principal_axes(images.covariance)
        variances = variances * images.num_pixels / max(images.num_pixels - 1, 1)
        change = axes * (params["stretch"] * variances)[:, None, :]
        eye = torch.eye(3, dtype=change.dtype, device=change.device)
        shift = -(change * images.mean[:, None, :]).sum(dim=2, keepdim=True)
        return torch.cat([eye + change, shift], dim=2)


@dataclass(frozen=True)
class NormalizePerImage(ColorMatrix):
    """Normalize each image by its own statistics, and clamp to [-20, 20].

    Args:
        by: Statistics to use: "mean_std" subtracts the mean and divides by the standard deviation; "min_max" maps the smallest
            value to 0 and the largest to 1.
        per_channel: Whether each channel has its own statistics.

    Source: Albumentations Normalize on uint8 images, with normalization other than "standard".
    """

    # Measured 0 on noise and photographs, in units of 1/255 of the normalised value.
    tolerance: ClassVar[float] = 0.001
    leaves_unit_range: ClassVar[bool] = True
    limits: ClassVar[tuple[float, float]] = (-20.0, 20.0)

    reads_image: ClassVar[bool] = True
    """Always."""

    by: Literal["mean_std", "min_max"] = "mean_std"
    per_channel: bool = False

    def image_matrices(self, params: dict[str, Tensor], images: Statistics) -> Tensor:
        """Return the matrices, float64 [n, 3, 4], that subtract and divide."""
        if self.by == "min_max":
            low, high = images.low, images.high
            if not self.per_channel:
                low, high = low.amin(1, keepdim=True), high.amax(1, keepdim=True)
            middle, spread = low, high - low
        else:
            middle = images.mean
            variance = images.covariance.diagonal(dim1=1, dim2=2)
            if not self.per_channel:
                square = (variance + middle.square()).mean(1, keepdim=True)
                middle = middle.mean(1, keepdim=True)
                variance = square - middle.square()
            spread = variance.clamp(min=0).sqrt()
        scale = 1 / (spread + _EPSILON)
        eye = torch.eye(3, dtype=scale.dtype, device=scale.device)
        shift = (-middle * scale).expand(-1, 3)
        return torch.cat([scale.expand(-1, 3)[:, :, None] * eye, shift[:, :, None]], dim=2)


def principal_axes(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Return variances, [n, 3] in descending order, and axes, [n, 3, 3] in columns, of covariance matrices.

    The largest component of each axis is positive. The Jacobi method is used because torch.linalg.eigh would wait for the GPU.

    Args:
        covariance: Symmetric matrices, float64 [n, 3, 3].
    """
    a = covariance
    axes = torch.eye(3, dtype=a.dtype, device=a.device).expand_as(a)
    for _ in range(_NUM_SWEEPS):
        for row, column in ((0, 1), (0, 2), (1, 2)):
            turn = _jacobi_turn(a, row, column)
            a = turn.transpose(1, 2) @ a @ turn
            axes = axes @ turn
    variances, order = a.diagonal(dim1=1, dim2=2).sort(dim=1, descending=True)
    axes = axes.gather(2, order[:, None, :].expand(-1, 3, -1))
    largest = axes.gather(1, axes.abs().argmax(dim=1, keepdim=True))
    return variances, axes * torch.where(largest < 0, -1.0, 1.0)


def _jacobi_turn(a: Tensor, row: int, column: int) -> Tensor:
    """Return the rotations, [n, 3, 3], that make the element at (row, column) of symmetric matrices zero."""
    difference = a[:, column, column] - a[:, row, row]
    double = 2 * a[:, row, column] * torch.where(difference < 0, -1.0, 1.0)
    angle = 0.5 * torch.atan2(double, difference.abs())  # at most an eighth of a turn: it converges
    turn = torch.eye(3, dtype=a.dtype, device=a.device).repeat(len(a), 1, 1)
    turn[:, row, row] = turn[:, column, column] = angle.cos()
    turn[:, row, column] = angle.sin()
    turn[:, column, row] = -angle.sin()
    return turn


# Source: Albumentations. Per preset, the optical density of red, green and blue in hematoxylin and
# in eosin; the first from Ruifrok and Johnston 2001, the second from Macenko et al. 2009.
STAINS = {
    "ruifrok": ((0.644211, 0.716556, 0.266844), (0.092789, 0.954111, 0.283111)),
    "macenko": ((0.5626, 0.7201, 0.4062), (0.2159, 0.8012, 0.5581)),
    "standard": ((0.65, 0.7, 0.29), (0.07, 0.99, 0.11)),
    "high_contrast": ((0.55, 0.88, 0.11), (0.12, 0.86, 0.49)),
    "h_heavy": ((0.75, 0.61, 0.32), (0.04, 0.93, 0.36)),
    "e_heavy": ((0.6, 0.75, 0.28), (0.17, 0.95, 0.25)),
    "dark": ((0.78, 0.55, 0.28), (0.09, 0.97, 0.21)),
    "light": ((0.57, 0.71, 0.38), (0.15, 0.89, 0.42)),
}
TISSUE_BELOW = 0.85
"""Bound of the luma; brighter pixels are background."""


@dataclass(frozen=True)
class HEStain(Operation):
    """Scale and shift the amounts of hematoxylin and eosin in an image of stained tissue.

    Args:
        preset: Colours of the stains: "ruifrok", "macenko", "standard", "high_contrast", "h_heavy", "e_heavy", "dark" or
            "light"; None draws one of these per image.
        intensity_scale: Range of the factor, drawn for each stain.
        intensity_shift: Range of the number that is added, in [-1, 1], drawn for each stain.
        augment_background: Whether pixels brighter than tissue are changed, too.
        p: Share of the images that are changed.

    Source: Albumentations HEStain with method "preset" or "random_preset".
    """

    # Measured 0.0012 on noise and photographs.
    tolerance: ClassVar[float] = 0.01
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {
        "preset": Numbers(),
        "scale": Uniform("intensity_scale", 2),
        "shift": Uniform("intensity_shift", 2),
    }

    preset: Annotated[
        str | None, validation.optional(partial(validation.choice, allowed=tuple(STAINS)))
    ] = None
    _: KW_ONLY
    intensity_scale: Annotated[Range, validation.Interval(low=0, example="(0.7, 1.3)")] = (0.7, 1.3)
    intensity_shift: Annotated[
        Range, validation.Interval(low=-1, high=1, example="(-0.2, 0.2)")
    ] = (-0.2, 0.2)
    augment_background: bool = False
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``stains``, float64 [B, 2, 3], the colours; ``scale`` and ``shift``, float64 [B, 2], for the two stains."""
        table = np.array(list(STAINS.values()) if self.preset is None else [STAINS[self.preset]])
        return {
            "stains": table[whole_below(drawn["preset"], len(table))],
            "scale": drawn["scale"],
            "shift": drawn["shift"],
        }
