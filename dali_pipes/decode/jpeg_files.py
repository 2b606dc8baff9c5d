"""The JPEGs of some rows as compiled code takes them, with what is known of them from before and what is found out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import (
    CHECKPOINT,
    EVERY,
    Checkpoints,
    CheckpointStore,
    digests_of,
)
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD, OF_SCANS
from dali_pipes.pipeline.stages import Fetched

_NO_OFFSETS = np.empty(0, np.int64)
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
        spans: int64 [n, 2], see `spans_of`.
        store: Where they are looked up and kept; None for nowhere.
        digests: uint64 [n], see `digests_of`.
        known: Of each file; None where it is new, and has to be read as a whole. What is found in a header alone is not
            asked for: other decoders of ours may take such a file.
    """

    fetched: Fetched
    rows: NDArray[np.int64]
    spans: NDArray[np.int64]
    store: CheckpointStore | None
    digests: NDArray[np.uint64]
    known: Sequence[Checkpoints | None]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_new(self) -> NDArray[np.bool_]:
        """Which files have to be read as a whole, bool [n]."""
        return np.array([one is None for one in self.known], bool)

    @property
    def statuses(self) -> list[int]:
        """What is known to be wrong with each file; GOOD where that is nothing."""
        return [GOOD if one is None else one.status for one in self.known]

    def some(self, wanted: NDArray[np.bool_], *, as_new: bool = False) -> "JpegFiles":
        """Those that are wanted.

        Args:
            wanted: bool [n].
            as_new: Whether to forget what is known of them.
        """
        numbers = np.flatnonzero(wanted).tolist()
        return JpegFiles(
            self.fetched,
            self.rows[wanted],
            self.spans[wanted],
            self.store,
            self.digests[wanted],
            [None if as_new else self.known[number] for number in numbers],
        )

    def encoded(self) -> Encoded:
        """Describe them for compiled code; new files get room for their checkpoints."""
        from dali_pipes.decode.jpeg_batch_kernel import ENCODED

        samples = self.fetched.samples
        restarts = [getattr(samples[row], "restarts", None) for row in self.rows.tolist()]
        offsets = [_NO_OFFSETS if found is None else found[:-1] for found in restarts]
        bounds = np.cumsum([0, *map(len, offsets)])
        files = np.zeros(len(self), ENCODED)
        files["address"], files["num_bytes"] = self.spans.T
        files["first_offset"], files["last_offset"] = bounds[:-1], bounds[1:]
        files["judge"] = self.is_new
        files["checkpoints"], files["num_checkpoints"], files["every"] = zip(
            *map(_checkpoints, self.known), strict=True
        )
        most = self._most_checkpoints(np.diff(bounds))
        starts = np.cumsum(most) - most
        room = np.empty(int(most.sum()), CHECKPOINT)
        wanted = most > 0
        files["checkpoints"][wanted] = _address(room) + CHECKPOINT.itemsize * starts[wanted]
        files["num_checkpoints"][wanted], files["every"][wanted] = most[wanted], EVERY
        return Encoded(files, np.concatenate([_NO_OFFSETS, *offsets]), room, starts)

    def keep(self, encoded: Encoded, statuses: NDArray[np.int32]) -> None:
        """Keep what was found of new files, but for what is found in headers alone."""
        if self.store is None:
            return
        noted, room, starts = encoded.files["noted"], encoded.room, encoded.starts.tolist()
        kept = self.is_new & (noted >= 0) & np.isin(statuses, list(OF_SCANS))
        news = []
        for number in np.flatnonzero(kept).tolist():
            status, start = int(statuses[number]), starts[number]
            rows = room[start : start + int(noted[number])] if status == GOOD else room[:0]
            index = int(self.fetched.indices[self.rows[number]])
            news.append((index, int(self.digests[number]), Checkpoints(status, EVERY, rows)))
        self.store.keep_all(news)

    def _most_checkpoints(self, num_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many new files can have, int64 [n]: none where restart intervals are as short, as those of tiles."""
        if self.store is None:
            return np.zeros(len(self), np.int64)
        most, usual = (
            (-(-self.fetched.sizes[self.rows] // side)).prod(axis=1) // EVERY
            for side in (_LEAST_SIDE, _USUAL_SIDE)
        )
        return np.where(self.is_new & (num_offsets <= usual), most, 0)


def look_up(fetched: Fetched, rows: NDArray[np.int64], store: CheckpointStore | None) -> JpegFiles:
    """Look up what is known of the files of some rows, none of which is lost."""
    views = [np.frombuffer(fetched.data[row] or b"", np.uint8) for row in rows.tolist()]
    spans = spans_of(views)
    if store is None:
        nothing = np.zeros(len(rows), np.uint64)
        return JpegFiles(fetched, rows, spans, None, nothing, [None] * len(rows))
    digests = digests_of(spans)
    known = [
        one if one is not None and one.status in OF_SCANS else None
        for one in store.find_all(fetched.indices[rows], digests)
    ]
    return JpegFiles(fetched, rows, spans, store, digests, known)


def _checkpoints(known: Checkpoints | None) -> tuple[int, int, int]:
    """Address and number of the checkpoints that are known, and MCUs from one to the next."""
    if known is None or not len(known.rows):
        return 0, 0, 0
    return _address(known.rows), len(known.rows), known.every


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]  # in half the time of `ctypes`
    return address
