"""Read the images of a step in few compiled calls, from the file positions that a dataset gives."""

import os
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.stages.encoded_rows import UNREAD
from readers.datasets.located import Located
from readers.storage.limits import max_sample_bytes

_FIRST_IMAGE_BYTES = 120_000  # the average of ImageNet, until the first images are read
_SPARE = 1.25  # the total size varies between steps; memory that is never written costs nothing
_MOST_FREE = 8  # unused arenas for later steps: about the number of threads that read at once


class ReadImages(NamedTuple):
    """Encoded images of n samples.

    Attributes:
        arenas: The arenas that hold the images.
        spans: int64 [n, 2], address and length in bytes of each.
        sizes: int64 [n, 2], height and width of the upright images.
        states: uint8 [n], each UNREAD, READ or SIZED; the spans of UNREAD rows are undefined, and the sizes of all but
            SIZED rows.
    """

    arenas: Sequence[NDArray[np.uint8]]
    spans: NDArray[np.int64]
    sizes: NDArray[np.int64]
    states: NDArray[np.uint8]


class LocatedReader:
    """Reads images from known file positions; any thread may use it."""

    def __init__(self) -> None:
        self._image_bytes = _FIRST_IMAGE_BYTES
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_MOST_FREE)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Pickle without memory: another process allocates its own."""
        return LocatedReader, ()

    def read(self, located: Located, states: NDArray[np.uint8]) -> ReadImages:
        """Return the images at known file positions, with the sizes that JPEG headers state.

        It stops early if the storage is slow, and leaves the remaining images UNREAD.

        Args:
            located: File and position of each image.
            states: uint8 [n], READ for images to read, UNREAD for others; written: the state of each image afterwards.
        """
        # The import compiles unless the machine code is cached.
        from dali_pipes.jpeg.memory import MEMORY_BYTES
        from dali_pipes.stages.read_kernel import read_images

        count, paths = len(located.files), np.frombuffer(located.paths, np.uint8)
        places = np.empty((count, 3), np.int64)
        places[:, 0] = located.path_starts[located.files] if paths.size else located.files
        places[:, 1], places[:, 2] = located.starts, located.lengths
        limit = max_sample_bytes()
        # They are read one by one, which reports the reason.
        states[located.lengths > limit] = UNREAD
        wanted = np.where(states == UNREAD, 0, located.lengths)
        spans, sizes = np.zeros((count, 2), np.int64), np.array(located.sizes, np.int64)
        arenas, scratch, first = list[NDArray[np.uint8]](), np.zeros(MEMORY_BYTES, np.uint8), 0
        while first < count:
            arenas.append(self._arena(wanted[first:]))
            first = read_images(
                paths, _FLAGS, limit, places, first, arenas[-1], scratch, spans, sizes, states
            )
            if first < 0:
                states[-1 - first :] = UNREAD
                break
        lengths = spans[states != UNREAD, 1]
        if lengths.size:
            self._image_bytes = int(lengths.mean()) + 64
        return ReadImages(arenas, spans, sizes, states)

    def _arena(self, lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return memory that is large enough for images of these lengths in bytes; -1 stands for an unknown length."""
        known = lengths >= 0
        num_bytes = int(lengths[known].sum()) + 64 * len(lengths)
        num_bytes += int((len(lengths) - known.sum()) * self._image_bytes * _SPARE)
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        # Arenas are reused: the system clears newly allocated pages, which takes 10 us for an image of 100 kB.
        if not num_bytes <= memory.size <= 4 * num_bytes:
            # Slightly too large, so that it fits later steps: always different sizes would fragment the heap.
            memory = np.empty(num_bytes + num_bytes // 2, np.uint8)
        return np.asarray(_Arena(memory, self._free))


class _Arena:
    """Memory that is reused once no array or view of it exists."""

    def __init__(self, memory: NDArray[np.uint8], free: "deque[NDArray[np.uint8]]") -> None:
        self._memory, self._free = memory, free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._memory)


# O_NONBLOCK: opening a named pipe with the name of an image would block forever.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
