"""Entropy checkpoints of baseline JPEGs: places in the middle of a scan at which reading can begin.

One pass over all Huffman codes of a file finds them and gives its verdict, a number of `dali_pipes.jpeg.status`. So the
verdict is a function of the whole file, whatever part of it is decoded, now or later.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.spans import spans_of
from readers.sample import Payload

CHECKPOINT = np.dtype([("bit", "<u4"), ("dc", "<i2", (3,))])
"""A place between two MCUs, 10 bytes.

bit: Where the next code begins, in bits from the first byte of the scan's entropy-coded data, counted in the file's
    own bytes, stuffed zeros and restart markers included.
dc: The DC predictors of the components there, 0 behind a restart marker and for components that are not there.
"""

EVERY = 4
"""MCUs from one checkpoint to the next, where nothing else is asked for.

On an H100 reading the codes of 256 pictures takes 0.97 ms with 4 and 1.41 ms with 8, of crops 0.70 and 1.28 ms. With 2 it takes
0.77 and 0.43 ms, but the rows twice the memory. Rows that were stored with another distance stay good: each file names its own.
"""


_AT_ONCE = 16
"""Files that a thread reads in one call, 6 ms for photographs of 110 kB: the other threads find something to do, too."""


class Checkpoints(NamedTuple):
    """What one pass over a whole file found.

    Attributes:
        status: GOOD, or the first number of `dali_pipes.jpeg.status` that speaks against the file.
        every: MCUs from one checkpoint to the next, at least 1.
        rows: CHECKPOINT [n], C-contiguous; row k is the place before MCU (k + 1) * every, and the place before MCU 0
            is not among them. Empty where the status is not GOOD, where there was no room for them, where the scan has
            512 MB or more, or where restart intervals serve instead. May lie in mapped memory.
    """

    status: int
    every: int
    rows: NDArray[np.void]


KNOWN = np.dtype([(name, np.int64) for name in ("status", "every", "address", "num_rows")])
"""What is known of a file: as `Checkpoints`, with the address and the number of the rows; the status is UNREAD where nothing is."""
UNREAD = -1


class Known(NamedTuple):
    """What is known of files, for compiled code.

    Attributes:
        files: KNOWN [n].
        held: Keeps the rows in memory.
    """

    files: NDArray[np.void]
    held: Any


class CheckpointStore(Protocol):
    """Remembers the checkpoints of a dataset's samples; any thread may ask."""

    def look_up(self, indices: NDArray[np.int64], digests: NDArray[np.uint64]) -> Known:
        """Return what was kept of some samples.

        Args:
            indices: int64 [n], their places in the dataset.
            digests: uint64 [n], `digests_of` their bytes.

        Returns:
            Of each; nothing where what is known is of other bytes.
        """
        ...

    def keep_all(self, found: Sequence[tuple[int, int, Checkpoints]]) -> None:
        """Remember what was found, as far as there is room; it is copied.

        Args:
            found: Of each sample its place in the dataset, `digests_of` the bytes that were read, and what was found;
                the verdict may be a bad one.
        """
        ...


def listed(found: Sequence[Checkpoints | None]) -> Known:
    """What is known of files; None is nothing."""
    files = [(UNREAD, 0, 0, 0) if one is None else _listed(one) for one in found]
    return Known(np.array(files, KNOWN), found)


def _listed(one: Checkpoints) -> tuple[int, int, int, int]:
    return one.status, one.every, one.rows.__array_interface__["data"][0], len(one.rows)


def find_checkpoints(data: Payload, every: int) -> tuple[int, NDArray[np.void]]:
    """Read all Huffman codes of a JPEG, and note places to begin at; no pixel is computed.

    Args:
        data: The file.
        every: MCUs from one checkpoint to the next, at least 1.

    Returns:
        GOOD and CHECKPOINT [(MCUs - 1) // every], or another number of `dali_pipes.jpeg.status` and no row. GOOD is a
        JPEG whose scans have all codes that they need, and end with them; if there are several, or one of 512 MB or
        more, there is no row either.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1 MCU, got {every=}; take {EVERY}")
    [found] = find_all_checkpoints(spans_of([np.frombuffer(data, np.uint8)]), every)
    return found.status, found.rows


def find_all_checkpoints(
    files: NDArray[np.int64], every: int, pool: ThreadPoolExecutor | None = None
) -> list[Checkpoints]:
    """Read all Huffman codes of some JPEGs; see `find_checkpoints`.

    Args:
        files: int64 [n, 2]: address and length in bytes.
        every: MCUs from one checkpoint to the next, at least 1.
        pool: Threads that help with more than _AT_ONCE files; the calling thread may be one of them.

    Returns:
        What was found in each file.
    """
    found: list[list[Checkpoints]] = [[] for _ in range(0, len(files), _AT_ONCE)]
    parts = deque(range(len(found)))

    def work() -> None:
        while True:
            try:
                part = parts.popleft()
            except IndexError:
                return
            found[part] = _find(files[_AT_ONCE * part : _AT_ONCE * (part + 1)], every)

    others: list[Future[None]] = []
    try:
        while pool is not None and len(others) < len(found) - 1:
            others.append(pool.submit(work))
        work()
    finally:
        # Also of an error, for the caller may give up the files then. A task that has not begun is not waited for: this
        # thread may be one of the pool, which then had none left.
        begun = [other for other in others if not other.cancel()]
        wait(begun)
    for other in begun:
        other.result()
    return [one for part in found for one in part]


def _find(files: NDArray[np.int64], every: int) -> list[Checkpoints]:
    """Read all codes of some files in one compiled call."""
    # Compiles, where that was not done before.
    from dali_pipes.jpeg.whole import check_whole, most_checkpoints, thread_scratch

    scratch = thread_scratch()
    rows = np.empty(most_checkpoints(files, every, scratch), CHECKPOINT)
    ends, statuses = np.empty(len(files), np.int64), np.empty(len(files), np.int32)
    check_whole(files, np.zeros_like(files), every, scratch, statuses, rows, ends)
    parts = np.split(rows, ends)[: len(files)]
    return [
        Checkpoints(status, every, part)
        for status, part in zip(statuses.tolist(), parts, strict=True)
    ]


def digests_of(files: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Digest whole files, so that one that changed is noticed: XXH3 of 64 bits, at about 20 to 40 GB/s.

    Args:
        files: int64 [n, 2]: address and length in bytes; see `dali_pipes.jpeg.spans`.

    Returns:
        uint64 [n].
    """
    from dali_pipes.jpeg.digest import digest_all

    digests = np.empty(len(files), np.uint64)
    digest_all(files, digests)
    return digests
