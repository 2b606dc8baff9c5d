"""Copies from the host to a device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(values: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Copy numbers of the host to ``device`` without waiting for what is queued there."""
    tensor = (
        values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    )
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
