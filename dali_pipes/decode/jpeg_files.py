"""The JPEGs of some rows as compiled code takes them, with what is known of them from before and what is found out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import (
    CHECKPOINT,
    EVERY,
    KNOWN,
    UNREAD,
    Checkpoints,
    CheckpointStore,
    digests_of,
)
from dali_pipes.jpeg.status import GOOD, OF_SCANS
from dali_pipes.pipeline.stages import Fetched

_NO_OFFSETS, _NO_ROOM = np.empty(0, np.int64), np.empty(0, CHECKPOINT)
_OF_SCANS = list(OF_SCANS)
_OF_KNOWN = (("checkpoints", "address"), ("num_checkpoints", "num_rows"), ("every", "every"))
_LEAST_SIDE, _USUAL_SIDE = 8, 16  # of an MCU, in pixels


class Encoded(NamedTuple):
    """What compiled code reads and writes of n files.

    Attributes:
        files: ENCODED [n] of jpeg_batch_kernel.
        offsets: int64 [...], where the restart intervals begin of files of which that is known.
        room: CHECKPOINT [...], for the checkpoints of new files, one file behind the other.
        starts: int64 [n], where the room of each file begins.
    """

    files: NDArray[np.void]
    offsets: NDArray[np.int64]
    room: NDArray[np.void]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class JpegFiles:
    """The files of some rows.

    Attributes:
        fetched: All rows; as long as they are there, so are the files.
        rows: int64 [n], which of them these are; none is lost.
        spans: int64 [n, 2], address and length in bytes of each.
        store: Where they are looked up and kept; None for nowhere.
        digests: uint64 [n], see `digests_of`.
        known: KNOWN [n], what is known of each; the status is UNREAD where the file is new, and has to be read as a whole.
        held: Keeps the checkpoints in memory.
    """

    fetched: Fetched
    rows: NDArray[np.int64]
    spans: NDArray[np.int64]
    store: CheckpointStore | None
    digests: NDArray[np.uint64]
    known: NDArray[np.void]
    held: Any

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """Which files have to be read as a whole, bool [n]."""
        is_new: NDArray[np.bool_] = self.known["status"] == UNREAD
        return is_new

    @property
    def statuses(self) -> NDArray[np.int64]:
        """What is known to be wrong with each file; GOOD where that is nothing."""
        return np.where(self.is_new, GOOD, self.known["status"])

    def some(self, wanted: NDArray[np.bool_], *, as_new: bool = False) -> "JpegFiles":
        """Those that are wanted.

        Args:
            wanted: bool [n].
            as_new: Whether to forget what is known of them.
        """
        if wanted.all() and not as_new:
            return self
        known = self.known[wanted]
        if as_new:
            known["status"] = UNREAD
        return JpegFiles(
            self.fetched,
            self.rows[wanted],
            self.spans[wanted],
            self.store,
            self.digests[wanted],
            known,
            self.held,
        )

    def encoded(self) -> Encoded:
        """Describe them for compiled code; new files get room for their checkpoints."""
        from dali_pipes.decode.jpeg_batch_kernel import ENCODED

        files, is_new = np.zeros(len(self), ENCODED), self.is_new
        files["address"], files["num_bytes"] = self.spans.T
        files["judge"] = is_new
        has_rows = ~is_new & (self.known["num_rows"] > 0)
        for name, of_known in _OF_KNOWN:
            files[name] = np.where(has_rows, self.known[of_known], 0)
        offsets = [_NO_OFFSETS]
        if (restarts := self.fetched.restarts) is not None:
            found = [restarts[row] for row in self.rows.tolist()]
            offsets = [_NO_OFFSETS if one is None else one[:-1] for one in found]
            bounds = np.cumsum([0, *map(len, offsets)])
            files["first_offset"], files["last_offset"] = bounds[:-1], bounds[1:]
        if self.store is None or not is_new.any():
            return Encoded(files, np.concatenate(offsets), _NO_ROOM, np.zeros(len(self), np.int64))
        most = self._most_checkpoints(files["last_offset"] - files["first_offset"])
        starts = np.cumsum(most) - most
        room = np.empty(int(most.sum()), CHECKPOINT)
        wanted = most > 0
        address = room.__array_interface__["data"][0]  # in half the time of `ctypes`
        files["checkpoints"][wanted] = address + CHECKPOINT.itemsize * starts[wanted]
        files["num_checkpoints"][wanted], files["every"][wanted] = most[wanted], EVERY
        return Encoded(files, np.concatenate(offsets), room, starts)

    def keep(self, encoded: Encoded, statuses: NDArray[np.int32]) -> None:
        """Keep what was found of new files, but for what is found in headers alone."""
        is_new = self.is_new
        if self.store is None or not is_new.any():
            return
        noted, room, starts = encoded.files["noted"], encoded.room, encoded.starts.tolist()
        kept = is_new & (noted >= 0) & np.isin(statuses, _OF_SCANS)
        news = []
        for number in np.flatnonzero(kept).tolist():
            status, start = int(statuses[number]), starts[number]
            rows = room[start : start + int(noted[number])] if status == GOOD else room[:0]
            index = int(self.fetched.indices[self.rows[number]])
            news.append((index, int(self.digests[number]), Checkpoints(status, EVERY, rows)))
        self.store.keep_all(news)

    def _most_checkpoints(self, num_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many new files can have, int64 [n]: none where restart intervals are as short, as those of tiles."""
        most, usual = (
            (-(-self.fetched.sizes[self.rows] // side)).prod(axis=1) // EVERY
            for side in (_LEAST_SIDE, _USUAL_SIDE)
        )
        return np.where(self.is_new & (num_offsets <= usual), most, 0)


def look_up(fetched: Fetched, rows: NDArray[np.int64], store: CheckpointStore | None) -> JpegFiles:
    """Look up what is known of the files of some rows, none of which is lost."""
    spans = fetched.spans[rows]
    if store is None:
        known, held = np.zeros(len(rows), KNOWN), None
        known["status"] = UNREAD
        return JpegFiles(fetched, rows, spans, None, np.zeros(len(rows), np.uint64), known, held)
    digests = digests_of(spans)
    known, held = store.look_up(fetched.indices[rows], digests)
    # What is found in a header alone does not count: other decoders of ours may take such a file.
    known["status"][~np.isin(known["status"], _OF_SCANS)] = UNREAD
    return JpegFiles(fetched, rows, spans, store, digests, known, held)
