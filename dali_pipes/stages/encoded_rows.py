"""Hold the encoded images of the rows of a step: their addresses, and Python objects that are created on access."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dali_pipes.jpeg.seek_points import spans_of
from dali_pipes.samples.labels import Labels, collect_labels
from readers import Sample
from readers.labels.label_vector import LabelShape
from readers.sample import Payload

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


@dataclass(frozen=True, slots=True)
class Encoded:
    """The encoded images of n rows; a row without a sample has no image.

    Attributes:
        spans: int64 [n, 2], address and length in bytes of each image; the length is 0 without a sample. The bytes stay
            valid as long as `data` lives.
        has_sample: bool [n], which rows have a sample.
        samples: The samples as stored; None for a row without a sample.
        data: The encoded images; None for a row without a sample.
        labels: Class numbers, or vectors or arrays of labels; see `collect_labels`.
        restarts: Offsets of restart intervals, see `readers.Sample.restarts`; None if no row has any.
        keys: Keys of the samples; "" for a row without a sample.
        is_plain: Whether only the images of the samples are read, without further fields.
    """

    spans: NDArray[np.int64]
    has_sample: NDArray[np.bool_]
    samples: Sequence[Sample | None]
    data: Sequence[Payload | None]
    labels: Labels
    restarts: Sequence[NDArray[np.int64] | None] | None
    keys: Sequence[str]
    is_plain: bool

    def rows(self, rows: slice) -> "Encoded":
        """Return consecutive rows."""
        return Encoded(
            self.spans[rows],
            self.has_sample[rows],
            self.samples[rows],
            self.data[rows],
            self.labels[rows],
            self.restarts and self.restarts[rows],
            self.keys[rows],
            self.is_plain,
        )

    def with_rows(self, rows: NDArray[np.int64], others: "Encoded") -> "Encoded":
        """Return a copy in which the rows of `others` replace the given rows, int64 [rows of `others`]."""
        restarts = self.restarts
        if restarts is not None or others.restarts is not None:
            new = others.restarts or [None] * len(rows)
            restarts = put(restarts or [None] * len(self.keys), rows, new)
        return Encoded(
            put(self.spans, rows, others.spans),
            put(self.has_sample, rows, others.has_sample),
            put(self.samples, rows, others.samples),
            put(self.data, rows, others.data),
            put(self.labels, rows, others.labels),
            restarts,
            put(self.keys, rows, others.keys),
            self.is_plain and others.is_plain,
        )


def encoded_of(
    samples: Sequence[Sample | None], data: Sequence[Payload | None], label_shape: LabelShape
) -> Encoded:
    """Return an `Encoded` of samples that were read one by one; a row without a sample is None in both arguments."""
    restarts = [None if sample is None else sample.restarts for sample in samples]
    return Encoded(
        spans_of([np.frombuffer(one or b"", np.uint8) for one in data]),
        np.array([one is not None for one in data], bool),
        samples,
        data,
        collect_labels(samples, label_shape),
        None if all(one is None for one in restarts) else restarts,
        ["" if sample is None else sample.key for sample in samples],
        is_plain=False,
    )


def put(values: Any, rows: NDArray[np.int64], new: Any) -> Any:
    """Return a copy of a column with new values at the given rows.

    Args:
        values: The column: an array, a list, LazyRows or Encoded.
        rows: int64 [k], the rows to replace.
        new: The k new rows.
    """
    if isinstance(values, Encoded):
        return values.with_rows(rows, new)
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
