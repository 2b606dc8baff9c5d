"""Plasma: cloud-like random fields, built from coarse to fine."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from gpu_aug.random_fields import uniform_field


def plasma(
    key: NDArray[np.uint32], size: tuple[int, int], roughness: float, device: torch.device
) -> Tensor:
    """Return clouds from 0 to 1, float32 [n, 1, H, W].

    Source: Albumentations generate_plasma_pattern, a diamond-square method in which a place gets
    its value only where the mean of its neighbours is above 0.

    Args:
        key: uint32 [n, 2], on the host.
        size: Height and width.
        roughness: Ratio of the strength of each finer layer to the one before.
        device: Device of the result.
    """
    num_steps = max(math.ceil(math.log2(max(max(size) - 1, 1))) - 1, 0)
    grid = uniform_field(key, (1, 3, 3), device) * 2 - 1
    for step in range(num_steps):
        side = 2 * grid.shape[2] - 1
        scale = float(np.float32(roughness**step))
        noise = (uniform_field(key, (1, side, side), device, stream=step + 1) * 2 - 1) * scale
        grid = _unit(_refined(grid, noise))
    return _unit(grid[:, :, : size[0], : size[1]])


def _refined(grid: Tensor, noise: Tensor) -> Tensor:
    """Return the grid with a new row and column between any two."""
    fine = torch.zeros_like(noise)
    fine[:, :, ::2, ::2] = grid + noise[:, :, ::2, ::2]
    for corners in (((0, 0), (0, 2), (2, 0), (2, 2)), ((0, 1), (1, 0), (1, 2), (2, 1))):
        padded = F.pad(fine, (1, 1, 1, 1))
        height, width = fine.shape[2:]
        mean = sum(
            padded[:, :, top : top + height, left : left + width] * 0.25 for top, left in corners
        )
        fine = fine + (mean + noise) * (mean > 0)
    return fine


def _unit(field: Tensor) -> Tensor:
    """Scale each field to [0, 1]."""
    low, high = field.amin(dim=(2, 3), keepdim=True), field.amax(dim=(2, 3), keepdim=True)
    return ((field - low) / (high - low).clamp(min=1e-12)).clamp_(0, 1)
