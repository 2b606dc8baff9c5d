"""A CUDA stream of our own for the work between decoder and training step, so that both run at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Ahead:
    """Tensors that a side stream is still computing.

    Attributes:
        tensors: The results, on the device of the stream.
        done: The event behind their last kernel; None on a CPU, where they are finished.
    """

    tensors: tuple[torch.Tensor, ...]
    done: Any

    def take(self) -> tuple[torch.Tensor, ...]:
        """Hand the tensors to the current stream, which waits for them; the host does not.

        Their memory belongs to the side stream. It is given out again only when the current stream is
        through with what it was asked for before they were deleted.
        """
        if self.done is not None:
            current = torch.cuda.current_stream(self.tensors[0].device)
            current.wait_event(self.done)
            for tensor in self.tensors:
                tensor.record_stream(current)
        return self.tensors


class SideStream:
    """Runs work beside the current stream, on a CPU at once.

    All of a device share one stream: torch keeps what a stream gave back for that stream alone, so that a stream for
    each epoch would hold on to the memory of an epoch each.

    Args:
        device: Where the work runs.

    Attributes:
        stream: What a producer, such as DALI, has to synchronise its outputs with; None on a CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream: Any = _stream_of(device) if device.type == "cuda" else None

    def run(self, work: Callable[[], Sequence[torch.Tensor]]) -> Ahead:
        """Ask for work whose inputs were made on this stream, or on the host.

        Args:
            work: Returns at least one tensor. Tensors that it allocates and drops belong to the side stream.
        """
        if self.stream is None:
            return Ahead(tuple(work()), None)
        with torch.cuda.stream(self.stream):
            tensors = tuple(work())
            done = self.stream.record_event()
        return Ahead(tensors, done)


@cache
def _stream_of(device: torch.device) -> Any:
    """The stream beside the training step on a device."""
    make: Any = torch.cuda.Stream
    # Its kernels are short, and a training step's long queue should not hold them up.
    return make(device, priority=-1)
