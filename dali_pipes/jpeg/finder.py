"""Checkpoints as they are kept: as bytes, with a version, and no more of them than pay."""

import math
from dataclasses import dataclass

import numpy as np

from dali_pipes.jpeg.checkpoints import CHECKPOINT, EVERY, Checkpoints, digests_of, find_checkpoints
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD, REASONS
from readers.checkpoints.layout import Kept
from readers.sample import Payload

_MOST_APART = 65535
_APART_BYTES = 500
"""Of the scan, from one checkpoint that is kept to the next: rows are then 1.5 % of the file. With 1,000 bytes they were 0.7 %, and
the kernel that reads codes on a GPU had half as many places to begin at, for 1.4 times as long (H100)."""


@dataclass(frozen=True)
class JpegFinder:
    """Finds the checkpoints of baseline JPEGs; a `readers.checkpoints.finder.Finder`.

    Attributes:
        every: The least distance of checkpoints in MCUs, 1 to 65535.
        version: See `Finder`. It goes up with a change of `CHECKPOINT`, of the numbers in `dali_pipes.jpeg.status`, of
            what `find_checkpoints` says of a file, or of the digest.

    Example:
        >>> from dali_pipes.jpeg.finder import FINDER
        >>> with open("photos/cat/000.jpg", "rb") as file:
        ...     kept = FINDER.find(file.read())
        >>> FINDER.reason(kept.status), kept.every
        ('', 16)
    """

    every: int = EVERY
    version: int = 3

    def digest(self, image: Payload) -> int:
        """See `Finder.digest`: over all bytes; see `dali_pipes.jpeg.digest`."""
        return int(digests_of(spans_of([np.frombuffer(image, np.uint8)]))[0])

    def find(self, image: Payload) -> Kept:
        """See `Finder.find`; rows are CHECKPOINT."""
        status, rows = find_checkpoints(image, self.every)
        return to_keep(Checkpoints(status, self.every, rows))

    def reason(self, status: int) -> str:
        """See `Finder.reason`."""
        return "" if status == GOOD else REASONS[status]


def to_keep(found: Checkpoints) -> Kept:
    """What is kept of what was found: every row, or every second, third ... where they lie close to one another."""
    rows, step = found.rows, 1
    if len(rows):
        num_bytes = int(rows["bit"][-1]) / 8
        step = math.ceil(_APART_BYTES * len(rows) / num_bytes) if num_bytes else len(rows)
        step = min(max(1, step), _MOST_APART // found.every)
    return Kept(found.status, found.every * step, rows[step - 1 :: step].tobytes())


def found_again(kept: Kept) -> Checkpoints:
    """What was kept, for the decoder."""
    return Checkpoints(kept.status, kept.every, np.frombuffer(kept.rows, CHECKPOINT))


FINDER = JpegFinder()
"""How this package finds them."""
