"""Seek points of JPEGs: positions in the middle of a scan at which decoding can begin.

One pass over all Huffman codes of a file finds its seek points and its status (a number of `dali_pipes.jpeg.status`).
So the status depends on the complete file, whichever part of it is decoded.
"""

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.status import GOOD, REASONS
from dali_pipes.jpeg.status import SEEK_POINT as SEEK_POINT
from readers.jpeg_seek_points.layout import PackedSeekPoints
from readers.sample import Payload

EVERY = 4
"""MCUs from one seek point to the next by default.

On an H100, reading the codes of 256 pictures takes 0.97 ms with 4 and 1.41 ms with 8; of crops, 0.70 and 1.28 ms. With
2 it takes 0.77 and 0.43 ms, but the seek points take twice the memory. Stored seek points of another distance stay
valid: each file has its own distance."""

_MAX_EVERY = 65535  # the stored format has 16 bits for the distance
_BYTES_BETWEEN = 500
"""Bytes of the scan from one stored seek point to the next: seek points are then 1.5 % of the file. With 1,000 bytes
they were 0.7 %, but the kernel that reads codes on a GPU had half as many starting points and took 1.4 times as long
(H100)."""

_FILES_PER_CALL = 16
"""Files that a thread reads in one call, about 6 ms for photographs of 110 kB; small enough to share work among
threads."""

KNOWN = np.dtype([(name, np.int64) for name in ("status", "every", "address", "num_rows")])
"""Record of a file's status and seek points: `SeekPoints` with the address and count of the rows. The status is UNREAD
if the file is unknown."""
UNREAD = -1
"""Status of a file that was not read yet; the numbers of `dali_pipes.jpeg.status` begin at 0."""


class SeekPoints(NamedTuple):
    """The result of one pass over a complete file.

    Attributes:
        status: GOOD, or the first status of `dali_pipes.jpeg.status` that applies to the file.
        every: MCUs from one seek point to the next, at least 1.
        rows: SEEK_POINT [n], C-contiguous. Row k is the position before MCU (k + 1) * every; MCU 0 has no row. Empty if
            the status is not GOOD, if there was no room, if the scan has 512 MB or more, or if restart intervals are
            used instead. May lie in mapped memory.
    """

    status: int
    every: int
    rows: NDArray[np.void]


class Known(NamedTuple):
    """Statuses and seek points of files, for compiled code.

    Attributes:
        files: KNOWN [n], one record per file.
        held: An object that keeps the seek points in memory.
    """

    files: NDArray[np.void]
    held: Any


@dataclass(frozen=True)
class JpegFinder:
    """Finds the seek points of JPEGs; implements `readers.jpeg_seek_points.finder.Finder`.

    Attributes:
        every: Smallest distance of seek points in MCUs, 1 to 65535.
        version: See `Finder`. Increase it with a change of `SEEK_POINT`, of the numbers in `dali_pipes.jpeg.status`, of
            the results of `find_seek_points`, or of the digest.

    Example:
        >>> from dali_pipes.jpeg.seek_points import FINDER
        >>> with open("photos/cat/000.jpg", "rb") as file:
        ...     kept = FINDER.find(file.read())
        >>> FINDER.reason(kept.status), kept.every
        ('', 16)
    """

    every: int = EVERY
    version: int = 3

    def digest(self, image: Payload) -> int:
        """Return the digest of all bytes; see `dali_pipes.jpeg.digest`."""
        return int(digests_of(spans_of([np.frombuffer(image, np.uint8)]))[0])

    def find(self, image: Payload) -> PackedSeekPoints:
        """Return the status of a JPEG and the seek points to store for it, whose rows are SEEK_POINT."""
        status, rows = find_seek_points(image, self.every)
        return thin_out(SeekPoints(status, self.every, rows))

    def reason(self, status: int) -> str:
        """Return the meaning of a status as text; "" for GOOD."""
        return "" if status == GOOD else REASONS[status]


FINDER = JpegFinder()
"""The finder of this package, with the default distance."""


def thin_out(found: SeekPoints) -> PackedSeekPoints:
    """Return the seek points to store: all rows, or every second, third, ... row if they are too close together."""
    rows, step = found.rows, 1
    if len(rows):
        num_bytes = int(rows["bit"][-1]) / 8
        step = math.ceil(_BYTES_BETWEEN * len(rows) / num_bytes) if num_bytes else len(rows)
        step = min(max(1, step), _MAX_EVERY // found.every)
    return PackedSeekPoints(found.status, found.every * step, rows[step - 1 :: step].tobytes())


def from_stored(kept: PackedSeekPoints) -> SeekPoints:
    """Return stored seek points (see `thin_out`) as rows for the decoder."""
    return SeekPoints(kept.status, kept.every, np.frombuffer(kept.rows, SEEK_POINT))


def spans_of(files: Sequence[NDArray[np.uint8]]) -> NDArray[np.int64]:
    """Return address and length in bytes of each file, int64 [n, 2]; the caller keeps the files in memory.

    Args:
        files: The bytes of each file, uint8 [num_bytes].
    """
    # Takes half the time of `ctypes`.
    found = [(file.__array_interface__["data"][0], file.size) for file in files]
    return np.array(found, np.int64).reshape(-1, 2)


def list_known(found: Sequence[SeekPoints | None]) -> Known:
    """Return seek points as records for compiled code; None stands for an unknown file."""
    files = np.zeros(len(found), KNOWN)
    files["status"] = UNREAD
    for number, one in enumerate(found):
        if one is not None:
            address = one.rows.__array_interface__["data"][0]
            files[number] = one.status, one.every, address, len(one.rows)
    return Known(files, found)


def find_seek_points(data: Payload, every: int) -> tuple[int, NDArray[np.void]]:
    """Read all Huffman codes of a JPEG and return its status and seek points; no pixel is computed.

    Args:
        data: The bytes of the file.
        every: MCUs from one seek point to the next, at least 1.

    Returns:
        GOOD and SEEK_POINT [(MCUs - 1) // every] if the scans have all codes that they need, and no more. A file with
        several scans, or with a scan of 512 MB or more, is GOOD without rows. Otherwise another status of
        `dali_pipes.jpeg.status`, without rows.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1 MCU, got {every=}; take {EVERY}")
    [found] = find_all_seek_points(spans_of([np.frombuffer(data, np.uint8)]), every)
    return found.status, found.rows


def find_all_seek_points(
    files: NDArray[np.int64], every: int, pool: ThreadPoolExecutor | None = None
) -> list[SeekPoints]:
    """Read all Huffman codes of some JPEGs and return their statuses and seek points; see `find_seek_points`.

    Args:
        files: int64 [n, 2]: address and length in bytes of each file.
        every: MCUs from one seek point to the next, at least 1.
        pool: Threads that help with more than _FILES_PER_CALL files; the calling thread may belong to it.

    Returns:
        One result per file.
    """
    found: list[list[SeekPoints]] = [[] for _ in range(0, len(files), _FILES_PER_CALL)]
    parts = deque(range(len(found)))

    def work() -> None:
        while True:
            try:
                part = parts.popleft()
            except IndexError:
                return
            found[part] = _find(files[_FILES_PER_CALL * part : _FILES_PER_CALL * (part + 1)], every)

    others: list[Future[None]] = []
    try:
        while pool is not None and len(others) < len(found) - 1:
            others.append(pool.submit(work))
        work()
    finally:
        # Waits after an error, too: the caller may then free the files. Tasks that have not begun are not waited for:
        # this thread may belong to the pool, which may have no other thread for them.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return [one for part in found for one in part]


def _find(files: NDArray[np.int64], every: int) -> list[SeekPoints]:
    """Return the statuses and seek points of some files, whose codes are read in one compiled call."""
    # The import compiles unless the machine code is cached.
    from dali_pipes.jpeg.decode import check_files, count_seek_points, thread_scratch
    from gpu_aug.compiled.units import calling_units

    scratch = thread_scratch()
    rows = np.empty(count_seek_points(files, every, scratch), SEEK_POINT)
    ends, statuses = np.empty(len(files), np.int64), np.empty(len(files), np.int32)
    with calling_units():
        check_files(files, every, scratch, statuses, rows, ends)
    parts = np.split(rows, ends)[: len(files)]
    return [
        SeekPoints(status, every, part)
        for status, part in zip(statuses.tolist(), parts, strict=True)
    ]


def digests_of(files: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each complete file, which detects changed files; about 20 to 40 GB/s.

    Args:
        files: int64 [n, 2]: address and length in bytes of each file; see `spans_of`.

    Returns:
        uint64 [n], the digest of each file.
    """
    from dali_pipes.jpeg.digest import digest_all

    digests = np.empty(len(files), np.uint64)
    digest_all(files, digests)
    return digests
