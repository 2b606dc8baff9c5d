"""Look up or compute the seek points of the sound baseline JPEGs of a step."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.seek_point_stores import SeekPointStore
from dali_pipes.jpeg.seek_points import (
    EVERY,
    UNREAD,
    Known,
    digests_of,
    find_all_seek_points,
    list_known,
)
from dali_pipes.jpeg.status import GOOD
from dali_pipes.stages.data import Fetched


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound baseline JPEGs of a step, whose bytes live as long as the step.

    Attributes:
        rows: int64 [n], rows in the step, ascending.
        spans: int64 [n, 2], see `Fetched.spans`.
        known: Statuses and seek points of the files.
        digests: uint64 [n], the digest of each file's bytes; see `digests_of`.
    """

    rows: NDArray[np.int64]
    spans: NDArray[np.int64]
    known: Known
    digests: NDArray[np.uint64]


def known_of(
    fetched: Fetched, store: SeekPointStore, pool: ThreadPoolExecutor | None = None
) -> Sound:
    """Return the sound baseline JPEGs of a step with their seek points; any thread may call it.

    Args:
        fetched: The step.
        store: Has the seek points of known files, and receives those of new files; finding them takes one pass over all
            codes of a file.
        pool: Threads that help if many files are new; the calling thread may belong to it.
    """
    rows = np.flatnonzero(fetched.has_sample)
    spans = fetched.spans[rows]
    digests, indices = digests_of(spans), fetched.indices[rows]
    known = store.look_up(indices, digests)
    statuses = known.files["status"]
    if (statuses == GOOD).all():  # true in every epoch after the first
        return Sound(rows, spans, known, digests)
    unread = np.flatnonzero(statuses == UNREAD)
    if len(unread):
        found = find_all_seek_points(spans[unread], EVERY, pool)
        new = list_known(found)
        known.files[unread] = new.files
        known = Known(known.files, (known.held, new.held))
        names = zip(indices[unread].tolist(), digests[unread].tolist(), found, strict=True)
        store.store_all(list(names))
    sound = known.files["status"] == GOOD
    found_sound = Known(known.files[sound], known.held)
    return Sound(rows[sound], spans[sound], found_sound, digests[sound])
