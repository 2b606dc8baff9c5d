"""Reading the images of a step in few compiled calls, at the places in files that a dataset gives."""

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
_SPARE = 1.25  # the files of steps differ in their sum; memory that is not written to costs nothing
_MOST_FREE = 8  # arenas for later steps: about as many as threads read at once


class ReadImages(NamedTuple):
    """Encoded images of n samples.

    Attributes:
        arenas: Hold them.
        spans: int64 [n, 2], address and length in bytes of each.
        sizes: int64 [n, 2], height and width of the upright images.
        states: uint8 [n], each UNREAD, READ or SIZED; spans of UNREAD and sizes of all but SIZED are undefined.
    """

    arenas: Sequence[NDArray[np.uint8]]
    spans: NDArray[np.int64]
    sizes: NDArray[np.int64]
    states: NDArray[np.uint8]


class LocatedReader:
    """Reads images; any thread may use it."""

    def __init__(self) -> None:
        self._image_bytes = _FIRST_IMAGE_BYTES
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_MOST_FREE)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Pickle no memory: another process has its own."""
        return LocatedReader, ()

    def read(self, located: Located, states: NDArray[np.uint8]) -> ReadImages:
        """Read images and JPEG headers; stop early if storage is slow, leaving the rest UNREAD.

        Args:
            located: Where they are.
            states: uint8 [n], READ where an image is wanted, UNREAD elsewhere; written.
        """
        # Compiles, where that was not done before.
        from dali_pipes.jpeg.memory import MEMORY_BYTES
        from dali_pipes.stages.read_kernel import read_images

        count, paths = len(located.files), np.frombuffer(located.paths, np.uint8)
        places = np.empty((count, 3), np.int64)
        places[:, 0] = located.path_starts[located.files] if paths.size else located.files
        places[:, 1], places[:, 2] = located.starts, located.lengths
        limit = max_sample_bytes()
        states[located.lengths > limit] = UNREAD  # reading them one by one reports that
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
        """Return memory for images of these lengths, -1 for unknown ones."""
        known = lengths >= 0
        num_bytes = int(lengths[known].sum()) + 64 * len(lengths)
        num_bytes += int((len(lengths) - known.sum()) * self._image_bytes * _SPARE)
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(0, np.uint8)
        # Pages that are freed and allocated again are cleared each time: 10 us for an image of 100 kB.
        if not num_bytes <= memory.size <= 4 * num_bytes:
            # With room to spare, so that it fits later steps: sizes that always differ fragment the heap.
            memory = np.empty(num_bytes + num_bytes // 2, np.uint8)
        return np.asarray(_Arena(memory, self._free))


class _Arena:
    """Memory that is used again once no array or view of it is left."""

    def __init__(self, memory: NDArray[np.uint8], free: "deque[NDArray[np.uint8]]") -> None:
        self._memory, self._free = memory, free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._free.append(self._memory)


# O_NONBLOCK: opening a named pipe called like an image would wait for ever.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
