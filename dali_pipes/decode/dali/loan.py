"""DALI's memory as torch tensors, without DLPack.

A thread of DALI frees memory that was exported by DLPack, and waits for the whole device first: for the training step,
too. If another thread captures a CUDA graph at that moment, the wait is an error that ends the process. Therefore torch
gets the address by `__cuda_array_interface__`. That protocol says nothing about streams and lifetimes, which are
handled here:

- Order: `share_outputs(cuda_stream=...)` makes the side stream wait for DALI, and only the side stream reads the memory.
- Lifetime: a Loan keeps DALI's objects alive. DALI reuses the memory, in the order of its own streams, once the last
  object is dropped; torch's `record_stream` covers only torch's own memory.
- Release: once the last tensor over the memory (views included) is gone, an event is recorded on the side stream. The
  objects are dropped after that event, at the latest at the end of the loop.
- Thread: the thread that takes the steps drops the objects, without waiting for the device. It drops DALI's TensorLists
  earlier, so memory that no tensor refers to is freed at that time, in the order of DALI's streams.

Nothing is copied: augmentation reads the memory that DALI wrote.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.stages.cuda_streams import SideStream


class Loan:
    """Lends DALI outputs to torch, and keeps them alive while a torch tensor refers to them.

    Args:
        side: The stream that DALI's outputs were shared with; only it may read them.
        sources: Objects that the outputs were made from; they are kept alive as long as the outputs.
    """

    def __init__(self, side: SideStream, sources: Sequence[Any] = ()) -> None:
        self._side = side
        self._owners: list[Any] = [] if side.stream is None else list(sources)

    def tensor(self, output: Any) -> torch.Tensor:
        """Return a DALI tensor as a torch tensor, on the device of the side stream.

        Args:
            output: A TensorGPU, or a TensorCPU on the CPU; densely packed, as all DALI tensors are.
        """
        if self._side.stream is None:
            lent: torch.Tensor = from_dlpack(output)
            return lent
        self._owners.append(output)
        return torch.as_tensor(
            _Lent(self, output.__cuda_array_interface__), device=self._side.device
        )

    def __del__(self) -> None:
        if self._owners:
            self._side.keep(self._owners)


class _Lent:
    """The object that a torch tensor and its views keep alive; it holds the Loan."""

    def __init__(self, loan: Loan, interface: dict[str, Any]) -> None:
        self._loan = loan
        # DALI writes types in the syntax of Python's buffers, "=B".
        typestr = np.dtype(interface["typestr"]).str
        self.__cuda_array_interface__ = {**interface, "typestr": typestr}
