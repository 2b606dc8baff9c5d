"""Memory that processes share: slots for the images and metadata of steps, and pickled objects."""

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

# Slots begin at page boundaries, so that two processes never write to the same page. 64 kB is the largest usual page, of
# some Linux kernels for ARM; with pages of 4 kB the difference is reserved once per view.
_PAGE_BYTES = 65_536
# Metadata may have any length. A terabyte per slot costs nothing: only written pages take memory.
_METADATA_BYTES = 1 << 40
# Arrays begin at cache lines, as NumPy's own do.
_ALIGNED_BYTES = 64


@dataclass(frozen=True, slots=True)
class Frame:
    """The layout of one view of a step in shared memory.

    Attributes:
        shape: [images, height, width, C] or [images, C, height, width] of the largest batch, in memory order.
        dtype: Type of the elements.
        permuted: Whether `images` returns [images, C, height, width] although channels come last in memory.
        columns: The images of a sample that the view shows; see View.
    """

    shape: tuple[int, int, int, int]
    dtype: torch.dtype
    permuted: bool
    columns: Sequence[int] = range(1)

    @property
    def size_bytes(self) -> int:
        """Bytes of the largest batch, rounded up to full pages."""
        return -(-prod(self.shape) * self.dtype.itemsize // _PAGE_BYTES) * _PAGE_BYTES

    def images(self, memory: torch.Tensor, count: int) -> torch.Tensor:
        """Return the images of the first `count` samples in a memory, without a copy.

        Args:
            memory: uint8 [bytes], at least as long as the images.
            count: Number of samples.
        """
        shape = (count * len(self.columns), *self.shape[1:])
        images = memory[: prod(shape) * self.dtype.itemsize].view(self.dtype).view(shape)
        return images.permute(0, 3, 1, 2) if self.permuted else images


class Ring:
    """A ring of slots in shared memory: step n uses slot n modulo the number of slots.

    The memory has no name in any file system, so the operating system frees it when the last process that uses it ends,
    even if that process is killed.

    Args:
        frames: The layouts of a slot, one for each recipe of the run; each has one entry per view.
        num_slots: Number of slots.
        descriptor: File descriptor of a ring that another process made; None makes a new ring.

    Attributes:
        descriptor: File descriptor with which another process opens the ring.

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
        """Return for each view the images of the first `count` samples of a step's slot, without a copy.

        Args:
            step: Index of the step.
            count: Number of samples.
            layout: Index of the slot's layout in `frames`.
        """
        start = step % self._num_slots * self._slot_bytes
        views = []
        for frame in self._frames[layout]:
            views.append(frame.images(self._memory[start:], count))
            start += frame.size_bytes
        return tuple(views)

    def write_metadata(self, step: int, metadata: bytes) -> None:
        """Store the metadata of a step."""
        _write(self.descriptor, memoryview(metadata), self._metadata_start(step))

    def read_metadata(self, step: int, num_bytes: int) -> bytes:
        """Return the `num_bytes` bytes of a step's metadata."""
        parts, start = [], self._metadata_start(step)
        while num_bytes:
            parts.append(os.pread(self.descriptor, num_bytes, start))
            start, num_bytes = start + len(parts[-1]), num_bytes - len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        """Close the descriptor; the memory is freed once no images in it are used."""
        self._memory = torch.empty(0, dtype=torch.uint8)
        os.close(self.descriptor)

    def _metadata_start(self, step: int) -> int:
        return _METADATA_BYTES * (1 + step % self._num_slots)


def pickle_parts(value: Any) -> list[memoryview]:
    """Pickle an object without copying its arrays.

    Returns:
        The pickle without its contiguous NumPy arrays, followed by the memory of each array.
    """
    arrays: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return [memoryview(data), *(buffer.raw() for buffer in arrays)]


def share_parts(parts: Sequence[memoryview]) -> int:
    """Copy the result of `pickle_parts` into shared memory, for `load_shared`.

    Returns:
        File descriptor of an unnamed file. Processes that load it share the memory of the arrays.

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

    The arrays are mapped copy-on-write: a process that changes one copies only the pages that it writes.
    """
    memory = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
    os.close(descriptor)
    count = memory[:8].cast("q")[0]
    sizes = memory[8 : 8 * (1 + count)].cast("q").tolist()
    starts = _starts([8 * (1 + count), *sizes])[1:]
    data, *arrays = (memory[at : at + size] for at, size in zip(starts, sizes, strict=False))
    return pickle.loads(data, buffers=arrays)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the offset of each part of the given sizes, and the end of the last part."""
    padded = (-(-size // _ALIGNED_BYTES) * _ALIGNED_BYTES for size in sizes)
    return list(accumulate(padded, initial=0))


def _write(descriptor: int, data: memoryview, start: int) -> None:
    while data:  # Linux writes at most 2 GiB at once
        written = os.pwrite(descriptor, data, start)
        data, start = data[written:], start + written


def _make(size_bytes: int) -> int:
    """Return the descriptor of an unnamed file, with memory reserved for all of its bytes.

    Raises:
        LoaderError: There is not enough shared memory.
    """
    if hasattr(os, "memfd_create"):  # unlike /dev/shm, it has no size limit
        descriptor = os.memfd_create("gpu-aug")
    else:
        descriptor, path = tempfile.mkstemp()
        os.unlink(path)  # noqa: PTH108 - mkstemp returns a string
    try:
        if hasattr(
            os, "posix_fallocate"
        ):  # without this, writing to memory that the system lacks would end the process by SIGBUS
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
