"""Operations that multiply each image by a brightness map, or change it along one."""

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.draws import Params
from gpu_aug.ops import validation
from gpu_aug.ops.distributions.columns import Drawn, Key, Numbers, Random, Uniform
from gpu_aug.ops.distributions.uniform import Range, Sizes, Uniforms, between, whole_below
from gpu_aug.ops.operation import Operation
from gpu_aug.random_fields import uniform_field
from gpu_aug.upload import upload

__all__ = ["Illumination", "PlasmaBrightnessContrast", "PlasmaShadow"]

# Albumentations has its own gradients for these angles: the shares of x, of y, and of 1.
_ROUND_ANGLES = {
    45.0: (0.5, 0.5, 0.0),
    135.0: (-0.5, 0.5, 0.5),
    180.0: (-1.0, 0.0, 1.0),
    225.0: (-0.5, -0.5, 1.0),
    270.0: (0.0, -1.0, 1.0),
    315.0: (0.5, -0.5, 0.5),
}


class Shading(Operation, abstract=True):
    """Base of operations that multiply the image by a brightness map and clamp the result to [0, 1]."""

    tolerance: ClassVar[float] = 0.001  # Measured 0: there is one field for all engines.
    needs_unit_range: ClassVar[bool] = True

    @abstractmethod
    def gain(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the brightness maps of n images, float32 [n, 1, H, W]; 1 changes nothing. The device is not waited for.

        Args:
            params: Parameters that ``draw`` returned, or rows of them.
            size: Height and width of the images.
            device: Device of the result.
        """


@dataclass(frozen=True)
class Illumination(Shading):
    """Make one part of the image brighter or darker than another.

    Args:
        mode: Shape of the change: "linear" from one side to the other, "corner" fading out from a corner, "gaussian" around a
            point.
        intensity: Range of the strength, in [0, 1].
        effect: "brighten", "darken", or "both", each for half of the images.
        angle: Range of the direction in degrees, for "linear".
        center: Range of the point's location along either axis, as a share of the side, for "gaussian".
        sigma: Range of the width, as a share of the longer side, for "gaussian".
        p: Share of the images that are changed.

    Source: Albumentations Illumination.
    """

    random: ClassVar[Random] = {
        "intensity": Uniform(),
        "sign": Numbers(),
        "place": Numbers(lambda self: 3 if self.mode == "gaussian" else 1),
    }

    mode: Literal["linear", "corner", "gaussian"] = "linear"
    _: KW_ONLY
    intensity: Annotated[Range, validation.Interval(low=0, high=1, example="(0.01, 0.2)")] = (
        0.01,
        0.2,
    )
    effect: Literal["brighten", "darken", "both"] = "both"
    angle: Annotated[Range, validation.Interval(low=-360, high=360, example="(0, 360)")] = (
        0.0,
        360.0,
    )
    center: Annotated[Range, validation.Interval(low=0, high=1, example="(0.1, 0.9)")] = (0.1, 0.9)
    sigma: Annotated[Range, validation.Interval(low=0, above=True, example="(0.2, 1.0)")] = (
        0.2,
        1.0,
    )
    p: float = 0.5

    def parameters(self, drawn: Drawn, sizes: Sizes) -> Params:
        """Return ``intensity``, float64 [B], negative for darker, and the location of the light.

        For "linear" this is ``slope``, float64 [B, 3]: the coefficients of x, y and 1, with x and y from 0 to 1. For
        "corner" it is
        ``corner``, int64 [B], which counts clockwise from the top left. For "gaussian" it is ``center``, float64 [B, 2]
        in (x, y), and ``sigma``, float64 [B].
        """
        sign = {
            "brighten": np.ones(len(sizes)),
            "darken": -np.ones(len(sizes)),
            "both": np.where(drawn["sign"] < 0.5, -1.0, 1.0),
        }[self.effect]
        params, place = {"intensity": sign * drawn["intensity"]}, drawn["place"]
        if self.mode == "linear":
            return params | {"slope": slopes(between(place[:, 0], self.angle))}
        if self.mode == "corner":
            return params | {"corner": whole_below(place[:, 0], 4)}
        center, sigma = between(place[:, :2], self.center), between(place[:, 2], self.sigma)
        return params | {"center": center, "sigma": sigma}

    def gain(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the brightness maps, float32 [n, 1, H, W]; 1 changes nothing."""
        height, width = size
        [intensity] = per_image(params["intensity"], device)
        if self.mode == "linear":
            y = torch.linspace(0, 1, height, device=device)[:, None]
            x = torch.linspace(0, 1, width, device=device)
            along, down, start = per_image(params["slope"], device)
            turned = (intensity < 0).float()  # there, the gradient is 1 - gradient
            gradient = (along * x + (down * y + start)).mul_(1 - 2 * turned).add_(turned)
            return gradient.mul_(2 * intensity.abs()).add_(1 - intensity.abs())
        y = torch.arange(height, device=device, dtype=torch.float32)[:, None]
        x = torch.arange(width, device=device, dtype=torch.float32)
        if self.mode == "corner":
            [corner] = per_image(params["corner"], device)
            right, below = (corner == 1) | (corner == 2), corner >= 2
            x, y = torch.where(right, width - 1 - x, x), torch.where(below, height - 1 - y, y)
            distance = (x.square() + y.square()).sqrt_()
            return distance.mul_(-intensity / math.hypot(height, width)).add_(1)
        center_x, center_y = per_image(params["center"], device)
        [sigma] = per_image(params["sigma"], device)
        square = (x - width * center_x).square() + (y - height * center_y).square()
        # In place: memory for a new field takes as long as a step of the computation.
        return square.div_(-2 * (max(size) * sigma).square()).exp_().mul_(intensity).add_(1)


@dataclass(frozen=True)
class PlasmaShadow(Shading):
    """Darken the image by random clouds.

    Args:
        intensity: Range, in [0, 1], of how much darker the darkest place becomes.
        roughness: Ratio of the strength of each finer layer of the clouds to the one before.
        p: Share of the images that are changed.

    Source: Albumentations PlasmaShadow.
    """

    random: ClassVar[Random] = {"intensity": Uniform(), "key": Key()}

    intensity: Annotated[Range, validation.Interval(low=0, high=1, example="(0.3, 0.7)")] = (
        0.3,
        0.7,
    )
    _: KW_ONLY
    roughness: Annotated[float, validation.Number(low=0, above=True, example="3.0")] = 3.0
    p: float = 0.5

    def gain(self, params: Params, size: tuple[int, int], device: torch.device) -> Tensor:
        """Return the brightness maps, float32 [n, 1, H, W]; 1 changes nothing."""
        [intensity] = per_image(params["intensity"], device)
        return plasma(params["key"], size, self.roughness, device).mul_(-intensity).add_(1)


@dataclass(frozen=True)
class PlasmaBrightnessContrast(Operation):
    """Brighten the image and raise its contrast by random clouds.

    Negative draws change nothing, as in Albumentations.

    Args:
        brightness: Range, in [-1, 1], of the number that is added where the clouds are thickest.
        contrast: Range, in [-1, 1], of the contrast factor minus 1 where the clouds are thickest.
        roughness: Ratio of the strength of each finer layer of the clouds to the one before.
        p: Share of the images that are changed.

    Source: Albumentations PlasmaBrightnessContrast.
    """

    # Measured 0.00002 on noise and photographs.
    tolerance: ClassVar[float] = 0.001
    needs_unit_range: ClassVar[bool] = True

    random: ClassVar[Random] = {"brightness": Uniform(), "contrast": Uniform(), "key": Key()}

    brightness: Annotated[Range, validation.Interval(low=-1, high=1, example="(-0.3, 0.3)")] = (
        -0.3,
        0.3,
    )
    contrast: Annotated[Range, validation.Interval(low=-1, high=1, example="(-0.3, 0.3)")] = (
        -0.3,
        0.3,
    )
    _: KW_ONLY
    roughness: Annotated[float, validation.Number(low=0, above=True, example="3.0")] = 3.0
    p: float = 0.5


def per_image(values: NDArray[Any], device: torch.device) -> tuple[Tensor, ...]:
    """Return the columns of numbers [n] or [n, k] as float32 [n, 1, 1, 1] each, on the device, for broadcasting."""
    return upload(values.astype(np.float32), device).view(len(values), -1, 1, 1, 1).unbind(1)


def slopes(angle: Uniforms) -> Uniforms:
    """Return the coefficients of x, y and 1 in gradients with these angles in degrees, float64 [B, 3]."""
    radians = np.deg2rad(angle)
    slope = np.stack([np.cos(radians), np.sin(radians), np.zeros(len(angle))], axis=1)
    for known, shares in _ROUND_ANGLES.items():
        slope[angle == known] = shares
    return slope


def plasma(
    key: NDArray[np.uint32], size: tuple[int, int], roughness: float, device: torch.device
) -> Tensor:
    """Return random clouds with values from 0 to 1, float32 [n, 1, H, W].

    Source: Albumentations generate_plasma_pattern, a diamond-square method in which a point gets its value only if the
    mean of its neighbours is positive.

    Args:
        key: Keys that determine the clouds, uint32 [n, 2], on the host.
        size: Height and width of the clouds.
        roughness: Ratio of the strength of each finer layer to the one before.
        device: Device of the result.
    """
    num_steps = max(math.ceil(math.log2(max(max(size) - 1, 1))) - 1, 0)
    grid = uniform_field(key, (1, 3, 3), device) * 2 - 1
    for step in range(num_steps):
        # The sides of the finest grid have up to twice the length of the image's longer side.
        if step == num_steps - 1:
            grid = grid[:, :, : (size[0] + 3) // 2, : (size[1] + 3) // 2]
        height, width = 2 * grid.shape[2] - 1, 2 * grid.shape[3] - 1
        rows = uniform_field(key, (1, height, 2 ** (step + 2) + 1), device, stream=step + 1)
        noise = (rows[..., :width] * 2).sub_(1)
        grid = _unit(_refined(grid, noise.mul_(float(np.float32(roughness**step)))))
    return _unit(grid[:, :, : size[0], : size[1]])


def _refined(grid: Tensor, noise: Tensor) -> Tensor:
    """Return the grid with a new row and a new column between any two neighbours.

    Points of the grid have even coordinates. The method computes the points with odd coordinates from these, then those with
    one odd coordinate from both. A neighbour beyond the border counts as 0.
    """
    even = grid + noise[:, :, ::2, ::2]
    left, right = even[:, :, :, :-1], even[:, :, :, 1:]
    odd = _grown(
        left[:, :, :-1] + right[:, :, :-1] + left[:, :, 1:] + right[:, :, 1:],
        noise[:, :, 1::2, 1::2],
    )
    tall, wide = F.pad(odd, (0, 0, 1, 1)), F.pad(odd, (1, 1, 0, 0))
    fine = torch.empty_like(noise)
    fine[:, :, ::2, ::2], fine[:, :, 1::2, 1::2] = even, odd
    fine[:, :, ::2, 1::2] = _grown(
        tall[:, :, :-1] + left + right + tall[:, :, 1:], noise[:, :, ::2, 1::2]
    )
    fine[:, :, 1::2, ::2] = _grown(
        even[:, :, :-1] + wide[:, :, :, :-1] + wide[:, :, :, 1:] + even[:, :, 1:],
        noise[:, :, 1::2, ::2],
    )
    return fine


def _grown(total: Tensor, noise: Tensor) -> Tensor:
    """Return new points: the mean of their four neighbours, whose sum is ``total``, plus noise; 0 unless the mean is positive."""
    return torch.where(total > 0, total * 0.25 + noise, 0)


def _unit(field: Tensor) -> Tensor:
    """Return each field scaled to [0, 1]."""
    low, high = field.amin(dim=(2, 3), keepdim=True), field.amax(dim=(2, 3), keepdim=True)
    return (field - low).div_((high - low).clamp_(min=1e-12)).clamp_(0, 1)
