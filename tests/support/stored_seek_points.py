"""Stored seek points as Python reads them: compiled code must read the same."""

import os
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from readers.jpeg_seek_points.layout import (
    HEAD_BYTES,
    SLOT_BYTES,
    PackedSeekPoints,
    parse_slot,
)
from readers.jpeg_seek_points.store import DatasetSeekPoints
from readers.storage.side_file import DamagedFileError


def read_stored(
    store: DatasetSeekPoints,
    indices: Sequence[int] | NDArray[np.int64],
    digests: Sequence[int] | NDArray[np.uint64],
) -> list[PackedSeekPoints | None]:
    """What is known of some images; None where it is nothing, or of other bytes.

    Args:
        store: Says where it stands.
        indices: Places in its dataset.
        digests: 64 bits of each image, over all of its bytes.
    """
    expected = np.asarray(digests, np.uint64).tolist()
    found: list[PackedSeekPoints | None] = [None] * len(expected)
    slots, _files = store.find_slots(np.asarray(indices, np.int64))
    for place, descriptor, seed, number in slots.tolist():
        data = os.pread(descriptor, SLOT_BYTES, HEAD_BYTES + SLOT_BYTES * number)
        with suppress(DamagedFileError):
            slot = parse_slot(seed, number, data)
            if found[place] is None and slot is not None and slot.digest == expected[place]:
                rows = os.pread(descriptor, slot.num_bytes, min(slot.start, 1 << 62))
                found[place] = slot.check(rows)
    return found
