"""Stores of seek points: in the memory of the process, or in files that processes and runs share."""

import threading
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.seek_points import (
    FINDER,
    KNOWN,
    SEEK_POINT,
    UNREAD,
    Known,
    SeekPoints,
    list_known,
    thin_out,
)
from readers.datasets.stream import is_stream
from readers.jpeg_seek_points.layout import SLOT_BYTES, Entry
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.sample import Dataset

_FILE_BYTES = 240  # of a file's entry without its rows: of the dictionary, the key, the tuple and the bytes object
_SHARE_OF_ROWS = 0.75  # a verdict alone saves a pass over a file, too
_USUAL_BYTES = 3000  # rows of a file of 110 kB and a third more; where that is too little, files are read a second time


class SeekPointStore(Protocol):
    """Remembers the seek points of a dataset's samples; any thread may call it."""

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """Return what is stored for some samples.

        Args:
            indices: int64 [n], indices of the samples in the dataset.
            digests: uint64 [n], `digests_of` their bytes.

        Returns:
            One record per sample; UNREAD where only other bytes are known.
        """
        ...

    def store_all(self, found: Sequence[tuple[int, int, SeekPoints]]) -> None:
        """Store results as far as there is room; they are copied.

        Args:
            found: For each sample its index in the dataset, `digests_of` the bytes that were read, and the result;
                the verdict may be a bad one.
        """
        ...


def open_seek_points(dataset: Dataset) -> SeekPointStore:
    """Return the store of a loader: on disk; in memory for streams."""
    return SeekPointMemory() if is_stream(dataset) else StoredSeekPoints(dataset)


class SeekPointMemory:
    """A `SeekPointStore` that ends with its process.

    Files are told apart by their digests alone, so the same file is known in any dataset. When the memory for rows is
    full only the verdicts of further files are stored, and when all of it is full nothing is: an epoch meets every file
    once, so that nothing is gained by removing one for another.

    Args:
        limit_bytes: The most that it holds. With the 256 MB of the default, and 1 KB to a file, these are the
            seek points of 155,000 files and the verdicts of 270,000 more.

    Attributes:
        num_bytes: What it holds, about.
    """

    def __init__(self, limit_bytes: int = 256_000_000) -> None:
        self.num_bytes = 0
        self._limit_bytes = limit_bytes
        # No arrays: millions of objects that the garbage collector has to look at would slow all else down.
        self._known: dict[int, tuple[int, int, bytes]] = {}
        self._lock = threading.Lock()  # the number of bytes and the entries change together

    def look_up(
        self,
        indices: NDArray[np.int64],  # noqa: ARG002 - the digest suffices
        digests: NDArray[np.uint64],
    ) -> Known:
        """See `SeekPointStore`."""
        found = [self._known.get(digest) for digest in digests.tolist()]
        return list_known(
            [
                None if one is None else SeekPoints(*one[:2], np.frombuffer(one[2], SEEK_POINT))
                for one in found
            ]
        )

    def store_all(self, found: Sequence[tuple[int, int, SeekPoints]]) -> None:
        """See `SeekPointStore`."""
        with self._lock:
            for _index, digest, (status, every, rows) in found:
                room = self._limit_bytes - self.num_bytes - _FILE_BYTES
                # Another thread may have been faster, or what was stored was wrong.
                if (known := self._known.get(digest)) is not None:
                    room += _FILE_BYTES + len(known[2])
                if rows.nbytes > room - (1 - _SHARE_OF_ROWS) * self._limit_bytes:
                    rows = rows[:0]
                if room >= 0:
                    self._known[digest] = (status, every, rows.tobytes())
                    self.num_bytes = self._limit_bytes - room + rows.nbytes


class StoredSeekPoints:
    """A `SeekPointStore` in files that processes and runs share; see `readers.jpeg_seek_points.store`.

    Where files can take no more, a warning is logged once, and this process alone remembers.

    Args:
        dataset: Any dataset.
        limit_bytes: See `DatasetSeekPoints`.
    """

    def __init__(self, dataset: Dataset, limit_bytes: int | None = None) -> None:
        self._stored = DatasetSeekPoints(dataset, FINDER.version, limit_bytes)
        self._memory = SeekPointMemory()

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """See `SeekPointStore`."""
        # Compiles, where that was not done before.
        from dali_pipes.jpeg.seek_point_slots import read_known

        slots, _files = self._stored.find_slots(indices)
        known = np.empty(len(digests), KNOWN)
        needed = SLOT_BYTES + _USUAL_BYTES * len(digests)
        room = np.empty(0, np.uint8)
        while needed > room.size:
            room = np.empty(needed, np.uint8)
            needed = read_known(slots, digests, known, room)
        known["address"] += room.__array_interface__["data"][0]
        if self._stored.is_writable:
            return Known(known, room)
        unread = np.flatnonzero(known["status"] == UNREAD)
        others = self._memory.look_up(indices[unread], digests[unread])
        known[unread] = others.files
        return Known(known, (room, others.held))

    def store_all(self, found: Sequence[tuple[int, int, SeekPoints]]) -> None:
        """See `SeekPointStore`."""
        self._stored.store([Entry(index, digest, thin_out(one)) for index, digest, one in found])
        if not self._stored.is_writable:
            self._memory.store_all(found)
