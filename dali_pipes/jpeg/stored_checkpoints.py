"""The checkpoints of a dataset that are kept in files, for the decoder."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoint_memory import CheckpointMemory
from dali_pipes.jpeg.checkpoints import KNOWN, UNREAD, Checkpoints, CheckpointStore, Known
from dali_pipes.jpeg.finder import FINDER, to_keep
from readers.checkpoints.layout import SLOT_BYTES, Entry
from readers.checkpoints.store import DatasetCheckpoints
from readers.sample import Dataset
from readers.stream import is_stream

_USUAL_BYTES = 3000  # of the rows of a file of 110 kB, and a third more; where that is too little there is a second turn


def checkpoints_of(dataset: Dataset) -> CheckpointStore:
    """Where a loader looks up and keeps the checkpoints of its data: files, and for streams the memory of the process."""
    return CheckpointMemory() if is_stream(dataset) else StoredCheckpoints(dataset)


class StoredCheckpoints:
    """A `CheckpointStore` that processes and runs share; see `readers.checkpoints.store`.

    Where nothing more can be kept in files, a warning is logged once, and this process alone remembers.

    Args:
        dataset: Any dataset.
        limit_bytes: See `DatasetCheckpoints`.
    """

    def __init__(self, dataset: Dataset, limit_bytes: int | None = None) -> None:
        self._kept = DatasetCheckpoints(dataset, FINDER.version, limit_bytes)
        self._memory = CheckpointMemory()

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """See `CheckpointStore`."""
        from dali_pipes.jpeg.stored_rows import (
            read_known,
        )  # compiles, where that was not done before

        slots, _files = self._kept.places(indices)
        known = np.empty(len(digests), KNOWN)
        needed = SLOT_BYTES + _USUAL_BYTES * len(digests)
        room = np.empty(0, np.uint8)
        while needed > room.size:
            room = np.empty(needed, np.uint8)
            needed = read_known(slots, digests, known, room)
        known["address"] += room.__array_interface__["data"][0]
        if self._kept.writes:
            return Known(known, room)
        unread = np.flatnonzero(known["status"] == UNREAD)
        others = self._memory.look_up(indices[unread], digests[unread])
        known[unread] = others.files
        return Known(known, (room, others.held))

    def keep_all(self, found: Sequence[tuple[int, int, Checkpoints]]) -> None:
        """See `CheckpointStore`."""
        self._kept.keep([Entry(index, digest, to_keep(one)) for index, digest, one in found])
        if not self._kept.writes:
            self._memory.keep_all(found)
