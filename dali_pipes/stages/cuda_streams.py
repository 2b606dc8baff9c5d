"""A separate CUDA stream for decoding and augmenting, so that they overlap with the training step.

All GPU work on images is queued on that stream, one step ahead of the loop. At the hand-over, the current stream waits
for the images, and they are recorded on it; nothing else may read or write them before.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Ahead:
    """Tensors that the side stream may still be computing.

    Attributes:
        tensors: The results, on the device of the stream.
        done: The event after their last kernel; None on a CPU, where they are complete.
    """

    tensors: tuple[torch.Tensor, ...]
    done: Any

    def take(self) -> tuple[torch.Tensor, ...]:
        """Return the tensors for use on the current stream, which waits for them; the host does not wait.

        Their memory belongs to the side stream. It is reused only after the current stream has done the work that was
        queued before the tensors were deleted.
        """
        if self.done is not None:
            current = torch.cuda.current_stream(self.tensors[0].device)
            current.wait_event(self.done)
            for tensor in self.tensors:
                tensor.record_stream(current)
        return self.tensors


class SideStream:
    """Runs work on a separate stream; on a CPU, work runs at once.

    All side streams of a device share one CUDA stream: torch caches freed memory per stream, so a new stream for each
    epoch would hold the memory of each epoch. Only one thread may queue work.

    Args:
        device: Where the work runs.

    Attributes:
        device: The device on which the work runs.
        stream: The CUDA stream; DALI must synchronise its outputs with it. None on a CPU.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: Any = _stream_of(device) if device.type == "cuda" else None
        self._owners: deque[tuple[Any, Any]] = deque()
        self._is_closed = False

    def run(self, work: Callable[[], Sequence[torch.Tensor]]) -> Ahead:
        """Queue work on this stream and return its results, which may still be in progress.

        Args:
            work: Returns at least one tensor. Its inputs were made on this stream or on the host. Tensors that it
                allocates and drops belong to the side stream.
        """
        if self.stream is None:
            return Ahead(tuple(work()), None)
        self._release()
        with torch.cuda.stream(self.stream):
            tensors = tuple(work())
            done = self.stream.record_event()
        return Ahead(tensors, done)

    def keep(self, owner: Any) -> None:
        """Keep an object alive until the work that is queued now is done; any thread may call this."""
        if self._is_closed:  # `_release` will not be called again
            self.stream.synchronize()
        else:
            self._owners.append((self.stream.record_event(), owner))

    def close(self) -> None:
        """Wait for this stream (not for the full device), and drop all objects that it kept alive."""
        self._is_closed = True
        while self._owners:
            self._owners[0][0].synchronize()
            self._owners.popleft()

    def _release(self) -> None:
        while self._owners and self._owners[0][0].query():
            self._owners.popleft()


@cache
def _stream_of(device: torch.device) -> Any:
    """Return the one side stream of a device, creating it on the first call."""
    make: Any = torch.cuda.Stream
    # High priority: the kernels are short and must not wait behind the queue of a training step.
    return make(device, priority=-1)
