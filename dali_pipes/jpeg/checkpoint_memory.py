"""The checkpoints of files that a process has met, in its memory."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import CHECKPOINT, Checkpoints, Known, listed

_FILE_BYTES = 240  # of a file's entry without its rows: of the dictionary, the key, the tuple and the bytes object
_SHARE_OF_ROWS = 0.75  # a verdict alone saves a pass over a file, too


class CheckpointMemory:
    """A `CheckpointStore` that ends with its process; any thread may ask.

    Files are told apart by their digests alone, so the same file is known wherever it stands in whatever dataset. When
    the memory for rows is full further files are known by their verdicts, and when all of it is full not at all: an
    epoch meets every file once, so that nothing is gained where one makes room for another.

    Args:
        limit_bytes: The most that it holds. With the 256 MB of the default, and 1 KB to a file, these are the
            checkpoints of 155,000 files and the verdicts of 270,000 more.

    Attributes:
        num_bytes: What it holds, about.
    """

    def __init__(self, limit_bytes: int = 256_000_000) -> None:
        self.num_bytes = 0
        self._limit_bytes = limit_bytes
        # No arrays: millions of objects that the garbage collector has to look at would slow all else down.
        self._known: dict[int, tuple[int, int, bytes]] = {}
        self._keeping = threading.Lock()

    def look_up(
        self,
        indices: NDArray[np.int64],  # noqa: ARG002 - the digest tells
        digests: NDArray[np.uint64],
    ) -> Known:
        """See `CheckpointStore`."""
        found = [self._known.get(digest) for digest in digests.tolist()]
        return listed(
            [
                None if one is None else Checkpoints(*one[:2], np.frombuffer(one[2], CHECKPOINT))
                for one in found
            ]
        )

    def keep_all(self, found: Sequence[tuple[int, int, Checkpoints]]) -> None:
        """See `CheckpointStore`."""
        with self._keeping:
            for one in found:
                self._keep(*one)

    def _keep(self, _index: int, digest: int, found: Checkpoints) -> None:
        status, every, rows = found
        room = self._limit_bytes - self.num_bytes - _FILE_BYTES
        # Another thread may have been faster, or what was kept was wrong.
        if (known := self._known.get(digest)) is not None:
            room += _FILE_BYTES + len(known[2])
        if rows.nbytes > room - (1 - _SHARE_OF_ROWS) * self._limit_bytes:
            rows = rows[:0]
        if room >= 0:
            self._known[digest] = (status, every, rows.tobytes())
            self.num_bytes = self._limit_bytes - room + rows.nbytes
