"""A row of the agreement table: an operation, its negative controls, and an outside reference."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gpu_aug import Operation

SIZE = (61, 84)
"""Height and width of the images that reach the operation: odd and not square."""

Change = float | Callable[[np.ndarray], np.ndarray]
"""Added to a drawn value (a gate is inverted, a matrix shifted); or makes another value of it."""

Oracle = Callable[[torch.Tensor, Any], torch.Tensor]
"""Makes an image of float32 [3, H, W] and the drawn parameters of one sample."""


@dataclass(frozen=True)
class Row:
    """An operation as it is tested.

    Attributes:
        operation: On images of SIZE.
        control: Drawn values of its (last) leaf and a small change; each change alone must be seen by the
            tolerance.
        oracle: Makes float32 [3, H, W] of float32 [3, *SIZE] in [0, 1] and one sample's parameters (a list of
            them, where the operation has several leaves), with code from outside the project. None
            where there is none.
        oracle_tolerance: Largest difference to the oracle, in 1/255.
        oracle_stray: Share of the values that may differ by more, such as ties of nearest resampling.
    """

    operation: Operation
    control: dict[str, Change] = field(default_factory=lambda: {"apply": 1})
    oracle: Oracle | None = None
    oracle_tolerance: float = 0.0
    oracle_stray: float = 0.0


def planar(image: np.ndarray) -> torch.Tensor:
    """A tensor [C, H, W] of an image [H, W, C]."""
    return torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)


def interleaved(x: torch.Tensor) -> np.ndarray:
    """An image [H, W, C] of a tensor [C, H, W]."""
    return np.ascontiguousarray(x.permute(1, 2, 0).numpy())


def inject(call: Any, x: torch.Tensor, **params: Any) -> torch.Tensor:
    """Albumentations' own class with these parameters, on float32 [3, *SIZE]."""
    params = {"shape": (*SIZE, 3), **params}
    result = call.apply_with_params(params, image=interleaved(x))["image"]
    return planar(np.asarray(result, np.float32))
