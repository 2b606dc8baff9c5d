"""Copies from the host to a device."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(values: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """Return numbers of the host as a tensor on ``device``, without waiting for the work that is queued there."""
    tensor = (
        values if isinstance(values, Tensor) else torch.from_numpy(np.ascontiguousarray(values))
    )
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
