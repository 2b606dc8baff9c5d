"""Elastic deformations: smooth random displacements."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Key, Random
from gpu_aug.ops.distributions.uniform import Range
from gpu_aug.ops.geometric.spatial import Remap
from gpu_aug.ops.geometric.warps import WarpWithBorder
from gpu_aug.random_fields import normal_field, uniform_field
from gpu_aug.upload import upload

__all__ = ["ElasticDistortion", "ElasticTransform"]

_AT_ONCE = 16
"""Samples at a time, for the memory of the fields in float64."""


class _Elastic(WarpWithBorder, Remap, abstract=True):
    """Base of elastic deformations; the only drawn parameter is ``key``, uint32 [B, 2], of the noise."""

    random: ClassVar[Random] = {"key": Key()}


def _pair(operation: str, field: str, value: Any) -> tuple[float, ...]:
    values = (value, value) if validation.is_number(value) else value
    return validation.numbers(operation, field, values, count=2, example="(50.0, 50.0)")


def _deviations(operation: str, field: str, value: Any) -> tuple[float, ...]:
    pair = _pair(operation, field, value)
    if min(pair) < 0 or (0 in pair and any(pair)):
        allowed = "above 0, or 0 for both, for example 5.0"
        raise validation.fault(operation, field, value, allowed)
    return pair


@dataclass(frozen=True)
class ElasticTransform(_Elastic):
    """Displace every pixel by smoothed uniform noise.

    Args:
        alpha: Strength in x and in y, or one number for both: half of it is the largest displacement in pixels before
            smoothing.
        sigma: Standard deviation of the smoothing in pixels, in x and in y, or one number for both; 0 means no smoothing.
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: torchvision v2 ElasticTransform; ``p`` is torchvision's RandomApply around it. Albumentations' ElasticTransform is
    ElasticDistortion here.
    """

    # Measured 0.003.
    tolerance: ClassVar[float] = 0.05

    alpha: Annotated[float | Range, _pair] = 50.0
    sigma: Annotated[float | Range, _deviations] = 5.0

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        alpha, sigma = (cast("tuple[float, float]", pair) for pair in (self.alpha, self.sigma))
        # x and y are smoothed alike, by kernels that are as long as their own sigma wants.
        kernels = [[gaussian(int(8 * own + 1) // 2 * 2 + 1, s) for s in sigma] for own in sigma]

        def field(key: NDArray[np.uint32]) -> Tensor:
            noise = uniform_field(key, (2, *size), device).double() * 2 - 1
            planes = []
            for axis, (along_x, along_y) in enumerate(kernels):
                plane = noise[:, axis]
                if sigma[axis] > 0:
                    plane = smoothed(plane, along_y, along_x, mirrored=True)
                planes.append(plane * (alpha[axis] / 2))
            return torch.stack(planes, dim=1).float()

        return _in_chunks(field, params["key"])


@dataclass(frozen=True)
class ElasticDistortion(_Elastic):
    """Displace every pixel by smoothed noise whose values lie in [-1, 1] before smoothing.

    Args:
        alpha: Strength: the factor of the smoothed noise, in pixels.
        sigma: Standard deviation of the smoothing in pixels, at least 1.
        approximate: Whether the smoothing kernel reaches no further than 8 pixels.
        same_dxdy: Whether x and y are displaced by equal amounts.
        noise_distribution: Distribution of the noise: "gaussian", divided by its largest value, or "uniform".
        interpolation: See WarpWithBorder.
        padding_mode: See WarpWithBorder.
        fill: See WarpWithBorder.
        fill_mask: See WarpWithBorder.
        blend: See WarpWithBorder.
        p: Share of the images that are changed.

    Source: Albumentations 2.0.8 ElasticTransform. It smooths the noise of x and of y as one image, one below the other, so that
    they mix at the seam.
    """

    tolerance: ClassVar[float] = ElasticTransform.tolerance

    alpha: Annotated[float, validation.Number(low=0, example="120.0")] = 1.0
    sigma: Annotated[float, validation.Number(low=1, example="6.0")] = 50.0
    _: KW_ONLY
    approximate: bool = False
    same_dxdy: bool = False
    noise_distribution: Literal["gaussian", "uniform"] = "gaussian"
    p: float = 0.5

    def displacement(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the displacement field, float32 [B, 2, H, W]; see Remap."""
        height, width = size
        planes = 1 if self.same_dxdy else 2
        # OpenCV's own length for float images.
        kernel = gaussian(17 if self.approximate else round(self.sigma * 8 + 1) | 1, self.sigma)

        def field(key: NDArray[np.uint32]) -> Tensor:
            if self.noise_distribution == "gaussian":
                noise = normal_field(key, (planes * height, width), device)
                noise = noise / noise.abs().amax(dim=(1, 2), keepdim=True)
            else:
                noise = uniform_field(key, (planes * height, width), device) * 2 - 1
            smooth = smoothed(noise.double(), kernel, kernel, mirrored=False) * self.alpha
            return smooth.view(-1, planes, height, width).expand(-1, 2, -1, -1).float()

        return _in_chunks(field, params["key"])


def gaussian(length: int, sigma: float) -> NDArray[np.float64]:
    """Return a Gaussian kernel with sum 1, float64 [length]; ``length`` is odd."""
    pixels = np.arange(length) - length // 2
    weights = np.exp(-0.5 * (pixels / sigma) ** 2) if sigma > 0 else (pixels == 0).astype(float)
    kernel: NDArray[np.float64] = weights / weights.sum()
    return kernel


def smoothed(
    planes: Tensor, along_y: NDArray[np.float64], along_x: NDArray[np.float64], *, mirrored: bool
) -> Tensor:
    """Return planes convolved with one symmetric kernel along y and one along x.

    Float64 makes the result in float32 independent of the batch and the device.

    Args:
        planes: Planes to smooth, float64 [B, H, W].
        along_y: Kernel along y, of odd length and with sum 1.
        along_x: Kernel along x, of odd length and with sum 1.
        mirrored: Whether the border is mirrored without its last pixel; if False, the last pixel is repeated.
    """
    planes = _convolved(planes, along_x, mirrored)
    return _convolved(planes.transpose(1, 2), along_y, mirrored).transpose(1, 2)


def _convolved(planes: Tensor, kernel: NDArray[np.float64], mirrored: bool) -> Tensor:
    """Return planes convolved along the last axis, computed as products of blocks with a band matrix."""
    length, half = planes.shape[-1], len(kernel) // 2
    block = max(len(kernel), 16)
    num = -(-length // block)
    pixels = np.arange(-half, num * block + half)
    if mirrored:
        pixels = pixels % max(2 * (length - 1), 1)
        pixels = np.where(pixels < length, pixels, 2 * (length - 1) - pixels)
    pixels = np.clip(pixels, 0, length - 1)
    band = np.zeros((block + 2 * half, block))
    for pixel in range(block):
        band[pixel : pixel + len(kernel), pixel] = kernel
    index, matrix = upload(pixels, planes.device), upload(band, planes.device)
    windows = planes.index_select(-1, index).unfold(-1, block + 2 * half, block)
    return (windows @ matrix).flatten(-2)[..., :length]


def _in_chunks(field: Callable[[NDArray[np.uint32]], Tensor], key: NDArray[np.uint32]) -> Tensor:
    parts = [field(key[at : at + _AT_ONCE]) for at in range(0, len(key), _AT_ONCE)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
