"""Memory that two processes share: slots for the images of batches, with a note beside each."""

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch

from dali_pipes.errors import LoaderError

# Slots begin at pages. Notes are of any length: they lie far behind the slots and far apart, and take
# only the memory that was written to.
_PAGE_BYTES = 4096
_NOTE_BYTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Frame:
    """The layout of one view of a step in memory that processes share.

    Attributes:
        shape: [images, height, width, 3], or [images, 3, height, width], of the largest batch, as it lies in
            memory.
        dtype: Data type of its numbers.
        permuted: Whether it is handed out as [images, 3, height, width] though channels lie last.
    """

    shape: tuple[int, int, int, int]
    dtype: torch.dtype
    permuted: bool

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes, in whole pages."""
        return -(-prod(self.shape) * self.dtype.itemsize // _PAGE_BYTES) * _PAGE_BYTES


class Ring:
    """Slots that are used in turn; step n has slot n modulo their number.

    It has no name in any file system: when the last process that knows it ends, however it ends, the
    memory is given back.

    Args:
        frames: The layouts of a slot, one entry for each of the run's recipes; each has one entry per view.
        num_slots: How many batches there is room for.
        descriptor: The file descriptor of a ring that was made by another process; None makes one.

    Attributes:
        descriptor: What another process needs to have the ring, too.

    Raises:
        LoaderError: There is not enough shared memory.
    """

    def __init__(
        self, frames: Sequence[Sequence[Frame]], num_slots: int, descriptor: int | None = None
    ) -> None:
        self._frames = tuple(frames)
        self._num_slots = num_slots
        self._slot_bytes = max(sum(frame.size_bytes for frame in layout) for layout in frames)
        size_bytes = self._slot_bytes * num_slots
        self.descriptor = _make(size_bytes) if descriptor is None else descriptor
        self._memory = torch.frombuffer(mmap.mmap(self.descriptor, size_bytes), dtype=torch.uint8)

    def images(self, step: int, count: int, layout: int = 0) -> tuple[torch.Tensor, ...]:
        """Return the first `count` images of a step's slot, per view, without a copy.

        Args:
            step: Number of the step.
            count: How many images.
            layout: Which of the layouts the slot has.
        """
        start = step % self._num_slots * self._slot_bytes
        views = []
        for frame in self._frames[layout]:
            num_bytes = prod(frame.shape) * frame.dtype.itemsize
            memory = self._memory[start : start + num_bytes].view(frame.dtype)
            images = memory.view(frame.shape)[:count]
            views.append(images.permute(0, 3, 1, 2) if frame.permuted else images)
            start += frame.size_bytes
        return tuple(views)

    def write_note(self, step: int, note: bytes) -> None:
        """Put a note beside a step's slot."""
        left, start = memoryview(note), self._note_start(step)
        while left:
            written = os.pwrite(self.descriptor, left, start)
            left, start = left[written:], start + written

    def read_note(self, step: int, num_bytes: int) -> bytes:
        """Return the note of a step, whose length is known."""
        parts, start = [], self._note_start(step)
        while num_bytes:
            parts.append(os.pread(self.descriptor, num_bytes, start))
            start, num_bytes = start + len(parts[-1]), num_bytes - len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Give back the descriptor, and the memory once no images of it are in use."""
        self._memory = torch.empty(0, dtype=torch.uint8)
        os.close(self.descriptor)

    def _note_start(self, step: int) -> int:
        return _NOTE_BYTES * (1 + step % self._num_slots)


def _make(size_bytes: int) -> int:
    """Return the descriptor of a file without a name, all of whose memory is there."""
    if hasattr(os, "memfd_create"):  # unlike /dev/shm it has no limit of its own
        descriptor = os.memfd_create("gpu-aug")
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)  # noqa: PTH108 - a path as mkstemp gives it
    try:
        if hasattr(os, "posix_fallocate"):  # else missing memory would kill who writes to it
            os.posix_fallocate(descriptor, 0, size_bytes)
        else:
            os.ftruncate(descriptor, size_bytes)
    except OSError as error:
        os.close(descriptor)
        raise LoaderError(
            f"helper_process=True needs {size_bytes >> 20} MiB of shared memory: {error.strerror}; "
            f"use a smaller batch_size or prefetch"
        ) from error
    return descriptor
