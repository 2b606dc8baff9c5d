"""DALI's memory as tensors of torch, without DLPack.

Memory that DALI exports by DLPack is freed by a thread of its own, which waits for the full device first: for the training step, and
while another thread captures a graph that wait is an error which ends the process. So torch gets the address by
`__cuda_array_interface__`, which says nothing of streams, nor of when memory may be written again:

- Who reads, and when: `share_outputs(cuda_stream=...)` lets the side stream wait for DALI, and only the side stream reads.
- What stays: a Loan keeps DALI's objects, as DALI reuses their memory in the order of its own streams once the last object is
  dropped, and torch's `record_stream` knows only memory of torch.
- When it is freed: once the last tensor over it is gone, views included, an event is recorded on the side stream; the objects are
  dropped after that event, at the latest as the loop ends.
- Who frees: the thread that takes the steps, without waiting for the device. It drops DALI's TensorLists earlier, so what no
  tensor refers to is freed then, in the order of DALI's streams.

Nothing is copied: the engine reads what DALI wrote.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from dali_pipes.stages.cuda_streams import SideStream


class Loan:
    """Lends outputs of DALI to torch, and keeps them in memory while a tensor of torch refers to them.

    Args:
        side: The stream that DALI's outputs were shared with, and that alone reads them.
        sources: What the outputs were made from; it is kept as long as they are.
    """

    def __init__(self, side: SideStream, sources: Sequence[Any] = ()) -> None:
        self._side = side
        self._owners: list[Any] = [] if side.stream is None else list(sources)

    def tensor(self, output: Any) -> torch.Tensor:
        """Return one of DALI's tensors, on the device of the stream, as torch's.

        Args:
            output: A TensorGPU, or on the CPU a TensorCPU; densely packed, as all of DALI's are.
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
    """The owner of a tensor of torch and of its views."""

    def __init__(self, loan: Loan, interface: dict[str, Any]) -> None:
        self._loan = loan
        # DALI names types as Python's buffers do, "=B".
        typestr = np.dtype(interface["typestr"]).str
        self.__cuda_array_interface__ = {**interface, "typestr": typestr}
