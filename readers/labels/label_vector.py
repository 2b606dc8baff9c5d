"""Vectors as labels (multi-hot classes, soft classes, numbers to regress), and a table of all labels of a dataset."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

Label = int | NDArray[np.float32]
"""The label of a sample: a class number, -1 for no label, or a vector, float32 [K]."""

LabelShape = tuple[int, ...] | None
"""The shape of all labels of a dataset: () for class numbers, (K,) for vectors of one length, None for several lengths."""


def to_vector(value: Any, shape: LabelShape = None) -> NDArray[np.float32]:
    """Return a label as a vector, float32 [K].

    Args:
        value: One-dimensional sequence of numbers.
        shape: The required shape; None allows any length.

    Raises:
        ValueError: `value` is not a vector, or has another length; the text is a short reason.
    """
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal length
        raise ValueError("the label is a list of lists of unequal length, not a vector") from None
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"the label is {array.dtype} of shape {list(array.shape)}, not a vector of numbers"
        )
    if shape is not None and array.shape != shape:
        raise ValueError(
            f"the label has {len(array)} numbers, those of this dataset have {shape[0]}"
        )
    return to_float32(array)


def to_float32(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return an array of numbers as float32; NaN is allowed.

    Raises:
        ValueError: A number is infinite or too large for float32; the text is a short reason.
    """
    with np.errstate(over="ignore"):  # such numbers are refused below
        found = np.ascontiguousarray(values, np.float32)
    lost = np.isinf(found)
    if lost.any():
        raise ValueError(
            f"the label holds {values[lost][0]!s}, which does not fit float32 (at most 3.4e38): scale it"
        )
    return found


def class_number(label: Label) -> int:
    """Return a label as class number; -1 if the label is a vector, or -1 already."""
    return -1 if isinstance(label, np.ndarray) and label.ndim else int(label)


def same_label(one: Label, other: Label) -> bool:
    """Return whether two labels are equal; NaN equals NaN."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)
    return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and one == other


def label_shape_of(dataset: object) -> LabelShape:
    """Return the attribute `label_shape` of a dataset; (), class numbers, if it has no such attribute."""
    shape: LabelShape = getattr(dataset, "label_shape", ())
    return shape


def described(shape: LabelShape) -> str:
    """Return a description of labels with this shape for messages, such as "vectors of 5 numbers"."""
    if shape is None:
        return "vectors of several lengths"
    return f"vectors of {shape[0]} numbers" if shape else "class numbers"


@dataclass(frozen=True, eq=False)
class LabelTable:
    """The labels of all N samples of a dataset, in compact arrays.

    Attributes:
        values: Class numbers, int64 [N], -1 for no label; vectors, float32 [N, K]; or concatenated vectors of several
            lengths, float32 [sum of lengths].
        starts: For concatenated vectors the start of each vector and the end of the last one, int64 [N + 1]; else None.
    """

    values: NDArray[np.int64] | NDArray[np.float32]
    starts: NDArray[np.int64] | None = None

    @staticmethod
    def of_vectors(vectors: Sequence[object]) -> "LabelTable":
        """Return a table of N vectors, of one or several lengths.

        Raises:
            ValueError: A value is not a vector; the text is "INDEX: REASON".
        """
        found: list[NDArray[np.float32]] = []
        for number, value in enumerate(vectors):
            try:
                found.append(to_vector(value))
            except ValueError as error:
                raise ValueError(f"{number}: {error}") from None
        if len({len(vector) for vector in found}) == 1:
            return LabelTable(np.stack(found))
        starts = np.array(list(accumulate(map(len, found), initial=0)), np.int64)
        return LabelTable(np.concatenate(found), starts)

    def __len__(self) -> int:
        return len(self.values) if self.starts is None else len(self.starts) - 1

    @property
    def shape(self) -> LabelShape:
        """Shape of every label; see `readers.IndexedDataset.label_shape`."""
        return None if self.starts is not None else self.values.shape[1:]

    def __getitem__(self, index: int) -> Label:
        """Return the label of one sample; a vector is returned as a copy."""
        if self.starts is not None:
            return np.array(self.values[self.starts[index] : self.starts[index + 1]], np.float32)
        if self.values.ndim == 1:
            return int(self.values[index])
        return np.array(self.values[index], np.float32)

    def class_numbers(self) -> NDArray[np.int64]:
        """Return the class number of every sample, int64 [N]; -1 if it has no label or a vector."""
        if self.starts is None and self.values.ndim == 1:
            return np.array(self.values, np.int64)
        return np.full(len(self), -1, np.int64)

    @property
    def identity(self) -> str:
        """64 hex digits that identify all labels, for fingerprints."""
        digest = hashlib.sha256()
        for array in (self.values, self.starts):
            if array is not None:
                kind = "<f4" if array.dtype.kind == "f" else "<i8"
                digest.update(f"{kind} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array.astype(kind, copy=False)).data)
        return digest.hexdigest()
