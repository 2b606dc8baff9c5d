"""A CUDA stream of our own for the work between decoder and training step, so that both run at once.

Everything that is done to images before they are handed over is asked for on that stream, one step ahead of the loop. What is
handed over is waited for by the stream that is current then, and recorded on it; nothing else may read or write it before.
"""

from collections import deque
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
    each epoch would hold on to the memory of an epoch each. One thread asks for work.

    Args:
        device: Where the work runs.

    Attributes:
        device: As given.
        stream: What a producer, such as DALI, has to synchronise its outputs with; None on a CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: Any = _stream_of(device) if device.type == "cuda" else None
        self._kept: deque[tuple[Any, Any]] = deque()
        self._is_closed = False

    def run(self, work: Callable[[], Sequence[torch.Tensor]]) -> Ahead:
        """Ask for work whose inputs were made on this stream, or on the host.

        Args:
            work: Returns at least one tensor. Tensors that it allocates and drops belong to the side stream.
        """
        if self.stream is None:
            return Ahead(tuple(work()), None)
        self._let_go()
        with torch.cuda.stream(self.stream):
            tensors = tuple(work())
            done = self.stream.record_event()
        return Ahead(tensors, done)

    def keep(self, owner: Any) -> None:
        """Hold on to the owner of memory until all that the stream was asked for so far is done; any thread may ask."""
        if self._is_closed:  # nobody will look again
            self.stream.synchronize()
        else:
            self._kept.append((self.stream.record_event(), owner))

    def close(self) -> None:
        """Let go of what is kept, once that is possible; the host waits for this stream alone."""
        self._is_closed = True
        while self._kept:
            self._kept[0][0].synchronize()
            self._kept.popleft()

    def _let_go(self) -> None:
        while self._kept and self._kept[0][0].query():
            self._kept.popleft()


@cache
def _stream_of(device: torch.device) -> Any:
    """The stream beside the training step on a device."""
    make: Any = torch.cuda.Stream
    # Its kernels are short, and a training step's long queue should not hold them up.
    return make(device, priority=-1)
