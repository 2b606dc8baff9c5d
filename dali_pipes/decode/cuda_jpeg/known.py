"""Which JPEGs of a step are sound, and their checkpoints: looked up, and found where they are not known yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.checkpoints import (
    EVERY,
    Checkpoints,
    CheckpointStore,
    digests_of,
    find_checkpoints,
)
from dali_pipes.jpeg.spans import spans_of
from dali_pipes.jpeg.status import GOOD
from dali_pipes.pipeline.stages import Fetched

_JPEG = b"\xff\xd8"


@dataclass(frozen=True, slots=True)
class Sound:
    """The sound baseline JPEGs of a step.

    Attributes:
        rows: int64 [n], ascending.
        spans: int64 [n, 2], see `spans_of`.
        checkpoints: Of each.
        held: Keeps their bytes in memory.
    """

    rows: NDArray[np.int64]
    spans: NDArray[np.int64]
    checkpoints: Sequence[Checkpoints]
    held: Any


def known_of(fetched: Fetched, store: CheckpointStore) -> Sound:
    """Find the sound baseline JPEGs of a step; any thread may ask.

    Args:
        fetched: The step.
        store: Has what is known, and gets what is found, which takes a pass over all codes of a file.
    """
    data = [b"" if one is None else one for one in fetched.data]
    rows = [row for row, one in enumerate(data) if bytes(one[:2]) == _JPEG]
    views = [np.frombuffer(data[row], np.uint8) for row in rows]
    spans = spans_of(views)
    digests = digests_of(spans)
    indices = fetched.indices[rows]
    sound = list[int]()
    found, new = [], []
    for place, known in enumerate(store.find_all(indices, digests)):
        one = known
        if one is None:
            one = Checkpoints(*_find(data[rows[place]]))
            new.append((int(indices[place]), int(digests[place]), one))
        if one.status == GOOD:
            sound.append(place)
            found.append(one)
    store.keep_all(new)
    return Sound(np.array(rows, np.int64)[sound], spans[sound], found, views)


def _find(data: bytes | memoryview) -> tuple[int, int, NDArray[np.void]]:
    status, rows = find_checkpoints(data, EVERY)
    return status, EVERY, rows
