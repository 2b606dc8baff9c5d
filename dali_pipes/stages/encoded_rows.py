"""Hold the encoded images of the rows of a step: their addresses, and Python objects that are created on access."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.seek_points import spans_of
from dali_pipes.samples.labels import collect_labels
from readers import Sample
from readers.labels.label_vector import LabelShape
from readers.sample import Payload
from readers.storage.blob import BlobPayload

T_co = TypeVar("T_co", covariant=True)

UNREAD, READ, SIZED = range(3)
"""States of an image: UNREAD (not read, for any reason), READ (size unknown), SIZED (read, and its size is known)."""


class LazyRows(Sequence[T_co]):
    """A sequence whose items are created on each access, except items that were set.

    Args:
        make: Creates the item for a number.
        numbers: For each index of the sequence, the number that `make` gets.
        others: Items that were set instead, by this number.
    """

    __slots__ = ("_make", "_numbers", "_others")

    def __init__(
        self, make: Callable[[int], T_co], numbers: range, others: Mapping[int, T_co] | None = None
    ) -> None:
        self._make, self._numbers, self._others = make, numbers, dict(others or ())

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return LazyRows(self._make, self._numbers[row], self._others)
        number = self._numbers[row]
        return self._others[number] if number in self._others else self._make(number)

    def __setitem__(self, row: int, item: Any) -> None:
        self._others[self._numbers[row]] = item

    def copy(self) -> "LazyRows[T_co]":
        """Return a copy that can be changed without changing this sequence."""
        return LazyRows(self._make, self._numbers, self._others)


def encoded_columns(
    samples: Sequence[Sample | None], data: Sequence[Payload | None], label_shape: LabelShape
) -> dict[str, Any]:
    """Return the columns of a `Fetched` that follow from samples that were read one by one, by name.

    Args:
        samples: The samples; None for a row without a sample.
        data: Their encoded images; None for a row without a sample.
        label_shape: Shape of the dataset's labels.
    """
    restarts = [None if sample is None else sample.restarts for sample in samples]
    # A remote video has no bytes in memory, and compiled code reads none of it.
    held = [b"" if isinstance(one, BlobPayload) else one for one in cast("Sequence[Any]", data)]
    return {
        "spans": spans_of([np.frombuffer(one or b"", np.uint8) for one in held]),
        "has_sample": np.array([one is not None for one in data], bool),
        "samples": samples,
        "data": data,
        "labels": collect_labels(samples, label_shape),
        "restarts": None if all(one is None for one in restarts) else restarts,
        "keys": ["" if sample is None else sample.key for sample in samples],
        "is_plain": False,
    }


def put(values: Any, rows: NDArray[np.int64], new: Any) -> Any:
    """Return a copy of a column with new values at the given rows.

    Args:
        values: The column: an array, a list or LazyRows.
        rows: int64 [k], the rows to replace.
        new: The k new rows.
    """
    copy = values.copy()
    for row, one in zip(rows.tolist(), new, strict=True):
        copy[row] = one
    return copy


def held_view(arenas: Sequence[NDArray[np.uint8]], address: Any, num_bytes: Any) -> Payload:
    """Return the bytes at an address inside one of the arenas; the result keeps that arena in memory."""
    for arena in arenas:
        start = int(address) - arena.__array_interface__["data"][0]
        if 0 <= start < arena.size:
            return arena.data[start : start + int(num_bytes)]
    raise AssertionError("the address lies in none of the arenas")
