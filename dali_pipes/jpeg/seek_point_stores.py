"""Stores of seek points: in process memory, or in files that processes and runs share."""

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

_FILE_BYTES = 240  # memory of a file's entry without its rows: slot in the dictionary, key, tuple and bytes object
_SHARE_OF_ROWS = (
    0.75  # the rest is for statuses without seek points: these save a pass over a file, too
)
# Rows of a 110 kB file plus a third; if it is too small, the slots are read a second time.
_USUAL_BYTES = 3000


class SeekPointStore(Protocol):
    """Stores the seek points of a dataset's samples; any thread may call it."""

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """Return the stored seek points of some samples.

        Args:
            indices: int64 [n], indices of the samples in the dataset.
            digests: uint64 [n], the digest of each sample's bytes.

        Returns:
            One record per sample; its status is UNREAD if nothing is stored for these bytes.
        """
        ...

    def store_all(self, found: Sequence[tuple[int, int, SeekPoints]]) -> None:
        """Store results as long as there is room; the results are copied.

        Args:
            found: For each sample: its index in the dataset, the digest of the bytes that were read, and the result,
                which may be a bad status.
        """
        ...


def open_seek_points(dataset: Dataset) -> SeekPointStore:
    """Return the store for a loader: files on disk; for streams, process memory."""
    return SeekPointMemory() if is_stream(dataset) else StoredSeekPoints(dataset)


class SeekPointMemory:
    """A `SeekPointStore` in the memory of the process.

    Files are identified by their digests alone, so a file is also recognised in another dataset. When the memory for
    seek points is full, only the statuses of further files are stored. When all memory is full, nothing more is stored:
    an epoch reads every file once, so evicting one file's seek points for another's would gain nothing.

    Args:
        limit_bytes: Largest memory use. The default of 256 MB holds the seek points of 155,000 files (1 KB each) and
            the statuses of 270,000 more.

    Attributes:
        num_bytes: Approximate memory use in bytes.
    """

    def __init__(self, limit_bytes: int = 256_000_000) -> None:
        self.num_bytes = 0
        self._limit_bytes = limit_bytes
        # bytes objects, not arrays: the garbage collector would have to scan millions of tracked objects.
        self._known: dict[int, tuple[int, int, bytes]] = {}
        self._lock = threading.Lock()  # keeps the number of bytes consistent with the entries

    def look_up(
        self,
        indices: NDArray[np.int64],  # noqa: ARG002 - the digest suffices
        digests: NDArray[np.uint64],
    ) -> Known:
        """Return what this process has stored for some samples; `indices` are not used."""
        found = [self._known.get(digest) for digest in digests.tolist()]
        return list_known(
            [
                None if one is None else SeekPoints(*one[:2], np.frombuffer(one[2], SEEK_POINT))
                for one in found
            ]
        )

    def store_all(self, found: Sequence[tuple[int, int, SeekPoints]]) -> None:
        """Store results as long as there is room."""
        with self._lock:
            for _index, digest, (status, every, rows) in found:
                room = self._limit_bytes - self.num_bytes - _FILE_BYTES
                # Replaces an entry that another thread stored meanwhile, or that was wrong.
                if (known := self._known.get(digest)) is not None:
                    room += _FILE_BYTES + len(known[2])
                if rows.nbytes > room - (1 - _SHARE_OF_ROWS) * self._limit_bytes:
                    rows = rows[:0]
                if room >= 0:
                    self._known[digest] = (status, every, rows.tobytes())
                    self.num_bytes = self._limit_bytes - room + rows.nbytes


class StoredSeekPoints:
    """A `SeekPointStore` in files that processes and runs share; see `readers.jpeg_seek_points.store`.

    If the files cannot take more, one warning is logged, and the process stores further seek points in its memory.

    Args:
        dataset: Any dataset.
        limit_bytes: Largest size of the files; see `DatasetSeekPoints`.
    """

    def __init__(self, dataset: Dataset, limit_bytes: int | None = None) -> None:
        self._stored = DatasetSeekPoints(dataset, FINDER.version, limit_bytes)
        self._memory = SeekPointMemory()

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """Return what the files or this process have stored for some samples."""
        # The import compiles unless the machine code is cached.
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
        """Store results in the files, or in memory if the files take no more."""
        self._stored.store([Entry(index, digest, thin_out(one)) for index, digest, one in found])
        if not self._stored.is_writable:
            self._memory.store_all(found)
