"""Memory that processes share: slots for the images of batches with a note beside each, and pickled objects."""

import mmap
import os
import pickle
import tempfile
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import torch

from dali_pipes.errors import LoaderError

# Slots begin at pages. Notes are of any length: they lie far behind the slots and far apart, and take
# only the memory that was written to.
_PAGE_BYTES = 4096
_NOTE_BYTES = 1 << 40
# Arrays begin at cache lines, as NumPy's own do.
_ALIGNED_BYTES = 64


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
        _write(self.descriptor, memoryview(note), self._note_start(step))

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


def pickle_parts(value: Any) -> list[memoryview]:
    """Pickle an object without copying its arrays.

    Returns:
        The pickle, and the memory of each contiguous NumPy array, which is not in the pickle.
    """
    arrays: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return [memoryview(data), *(buffer.raw() for buffer in arrays)]


def share_parts(parts: Sequence[memoryview]) -> int:
    """Copy what `pickle_parts` returned into shared memory, for `load_shared`.

    Returns:
        The file descriptor of a file without a name. Processes that load it share the memory of the arrays.

    Raises:
        LoaderError: There is not enough shared memory.
    """
    sizes = memoryview(array("q", [len(parts), *map(len, parts)])).cast("B")
    starts = _starts([len(sizes), *map(len, parts)])
    descriptor = _make(starts[-1])
    for part, start in zip([sizes, *parts], starts, strict=False):
        _write(descriptor, part, start)
    return descriptor


def load_shared(descriptor: int) -> Any:
    """Load the object that `share_parts` wrote, and close the descriptor.

    Its arrays are mapped copy-on-write: a process that writes to one gets copies of the pages that it writes to.
    """
    memory = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    os.close(descriptor)
    count = memory[:8].cast("q")[0]
    sizes = memory[8 : 8 * (1 + count)].cast("q").tolist()
    starts = _starts([8 * (1 + count), *sizes])[1:]
    data, *arrays = (memory[at : at + size] for at, size in zip(starts, sizes, strict=False))
    return pickle.loads(data, buffers=arrays)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where each of several parts begins, and where the last one ends."""
    padded = (-(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES for size in sizes)
    return list(accumulate(padded, initial=0))


def _write(descriptor: int, data: memoryview, start: int) -> None:
    while data:  # Linux writes at most 2 GiB at once
        written = os.pwrite(descriptor, data, start)
        data, start = data[written:], start + written


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
            f"helper_process needs {size_bytes >> 20} MiB of shared memory: {error.strerror}; "
            f"use a smaller batch_size or prefetch"
        ) from error
    return descriptor
