"""DALI's memory as tensors of torch, without DLPack.

What DALI exports by DLPack is freed by a thread of its own, which waits for the whole device first: for the training step, and
while another thread captures a graph that wait is an error which ends the process. So torch is told the address by
`__cuda_array_interface__`. That says nothing of streams: `share_outputs(cuda_stream=...)` lets the side stream wait for DALI,
and all that reads the tensors runs on the side stream. Nor does it say when memory may be written again: DALI goes by streams of
its own once its last object is dropped, and torch's `record_stream` does not know memory of others. So a Loan keeps DALI's objects;
when the last tensor that looks at them is gone, views included, an event is recorded on the side stream, and they are dropped when the
event is done, by the thread that takes the steps, at the latest as the loop ends. Then DALI's pool has the memory again;
that takes no wait for the device, and no other thread. DALI's TensorLists are dropped before, by the same thread: what of
them nobody looks at is freed then, in the order of DALI's streams.

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
