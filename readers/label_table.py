"""The labels of all samples of a dataset, kept in arrays."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from readers.label_vector import Label, LabelShape, to_vector


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Labels by index: 8 bytes for a class number, 4 for each number of a vector.

    Attributes:
        values: int64 [N] class numbers, -1 for none; float32 [N, K] vectors; or float32 [sum of lengths], vectors of
            several lengths one behind the other.
        starts: int64 [N + 1], where each of the latter begins, and the end of the last; else None.
    """

    values: NDArray[np.int64] | NDArray[np.float32]
    starts: NDArray[np.int64] | None = None

    @staticmethod
    def of_vectors(vectors: Sequence[object]) -> "LabelTable":
        """Keep vectors, in rows where all have one length.

        Raises:
            ValueError: One is no vector; the text is a short reason that begins with its number.
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
        """The label of one sample; a vector is a copy."""
        if self.starts is not None:
            return np.array(self.values[self.starts[index] : self.starts[index + 1]], np.float32)
        if self.values.ndim == 1:
            return int(self.values[index])
        return np.array(self.values[index], np.float32)

    def class_numbers(self) -> NDArray[np.int64]:
        """int64 [N]; -1 where there is none, and for vectors."""
        if self.starts is None and self.values.ndim == 1:
            return np.array(self.values, np.int64)
        return np.full(len(self), -1, np.int64)

    @property
    def identity(self) -> str:
        """Text that no other labels have."""
        digest = hashlib.sha256()
        for array in (self.values, self.starts):
            if array is not None:
                kind = "<f4" if array.dtype.kind == "f" else "<i8"
                digest.update(f"{kind} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array.astype(kind, copy=False)).data)
        return digest.hexdigest()
