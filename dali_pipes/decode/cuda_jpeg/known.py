"""Which JPEGs of a step are sound, and their checkpoints: looked up, and found where they are not known yet."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import (
    EVERY,
    UNREAD,
    Checkpoints,
    CheckpointStore,
    Known,
    digests_of,
    find_checkpoints,
    listed,
)
from dali_pipes.jpeg.status import GOOD
from dali_pipes.pipeline.stages import Fetched


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound baseline JPEGs of a step.

    Attributes:
        rows: int64 [n], ascending.
        spans: int64 [n, 2], see `spans_of`.
        known: What is known of each.
        digests: uint64 [n], of all bytes of each.
        held: Keeps their bytes in memory.
    """

    rows: NDArray[np.int64]
    spans: NDArray[np.int64]
    known: Known
    digests: NDArray[np.uint64]
    held: Any


def known_of(fetched: Fetched, store: CheckpointStore) -> Sound:
    """Find the sound baseline JPEGs of a step; any thread may ask.

    Args:
        fetched: The step.
        store: Has what is known, and gets what is found, which takes a pass over all codes of a file.
    """
    from dali_pipes.jpeg.addresses import begin_like_jpegs, fast_spans_of

    views = [np.frombuffer(one or b"\0", np.uint8) for one in fetched.data]
    spans = fast_spans_of(views)
    may_be = np.empty(len(views), bool)
    begin_like_jpegs(spans, may_be)
    rows = np.flatnonzero(may_be)
    if len(rows) < len(views):
        spans, views = spans[rows], [views[row] for row in rows.tolist()]
    digests, indices = digests_of(spans), fetched.indices[rows]
    known = store.look_up(indices, digests)
    unread = np.flatnonzero(known.files["status"] == UNREAD).tolist()
    if unread:
        found = [_find(views[place]) for place in unread]
        new = listed(found)
        known.files[unread] = new.files
        known = Known(known.files, (known.held, new.held))
        store.keep_all(
            [(int(indices[place]), int(digests[place]), one) for place, one in zip(unread, found, strict=True)]
        )  # fmt: skip
    sound = known.files["status"] == GOOD
    if not sound.all():
        rows, spans, digests = rows[sound], spans[sound], digests[sound]
        known = Known(known.files[sound], known.held)
    return Sound(rows, spans, known, digests, views)


def _find(data: NDArray[np.uint8]) -> Checkpoints:
    status, rows = find_checkpoints(data.data, EVERY)
    return Checkpoints(status, EVERY, rows)
