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


@dataclass(frozen=True)
class Row:
    """An operation as it is tested.

    Attributes:
        operation: On images of SIZE.
        control: Drawn values and a small change; each change alone must be seen by the tolerance.
        oracle: Makes float32 [3, H, W] of float32 [3, *SIZE] in [0, 1] and one sample's parameters, with
            code from outside the project. None where there is none.
        oracle_tolerance: Largest difference to the oracle, in 1/255.
    """

    operation: Operation
    control: dict[str, Change] = field(default_factory=lambda: {"apply": 1})
    oracle: Callable[[torch.Tensor, dict[str, Any]], torch.Tensor] | None = None
    oracle_tolerance: float = 0.0
