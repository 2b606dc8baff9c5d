"""The common base class of the datasets of Parquet and Arrow files."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.parts import PartsDataset
from readers.formats.columns import UNREADABLE, ColumnOptions
from readers.formats.tables.columns import UnreadableValue
from readers.formats.tables.layout import Layout, unknown_column
from readers.formats.tables.values import make_samples
from readers.sample import BadSample, ColumnName, Sample, SourceError


class RowFilesDataset(PartsDataset):
    """Base class of the rows of Parquet and Arrow files; the parts are their row groups or record batches.

    A subclass opens the files, sets `_source`, `_options`, `_decoded_bytes` and `_layout`, and calls `_set_parts`.
    """

    _source: Sequence[Any]  # first argument of the constructor
    _options: ColumnOptions
    _decoded_bytes: int
    _layout: Layout

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the source and the options; the process that unpickles opens the files again."""
        options = {**asdict(self._options), "decoded_bytes": self._decoded_bytes}
        return partial(type(self), **options), (self._source,)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; labels are read from the label column, and sizes are unknown."""
        if name != "label" or self._layout.label is None:
            return unknown_column(name, len(self))
        result = np.full(len(self), UNREADABLE, np.int64)
        reasons: dict[int, str] = {}

        def read(number: int) -> None:
            start, stop = self._starts[number : number + 2].tolist()
            labels = self._labels(*self._place_of(number))
            if isinstance(labels, UnreadableValue):
                reasons[start] = str(labels)
            else:
                result[start:stop] = labels

        self._on_parts(read, range(len(self._starts) - 1))
        return self._readable(result, reasons)

    def _set_parts(
        self,
        names: Sequence[str],
        rows: Sequence[NDArray[np.int64]],
        nulls: Iterable[Mapping[str, int]],
        lacking: Sequence[tuple[str, int]] = (),
        *,
        source: str,
    ) -> None:
        """Set the index of each part's first sample, and the number of samples without a label.

        Args:
            names: Names of the files, with which keys begin.
            rows: For each file, the number of rows of each part, int64 [parts].
            nulls: Number of nulls by column of each file; see `Layout.unlabelled`.
            lacking: Files without the label column; see `Layout.unlabelled`.
            source: Name of the first file, for the error.

        Raises:
            SourceError: There are no rows.
        """
        layout, self._names = self._layout, names
        self._class_names, self._remarks = layout.class_names, layout.remarks
        self._first_parts = np.cumsum([0, *map(len, rows)])
        self._starts = np.cumsum(np.concatenate([np.zeros(1, np.int64), *rows]))
        self._file_starts = self._starts[self._first_parts]
        if not len(self):
            raise SourceError(f"{source} holds no rows: leave it out, or write it again")
        self.unlabelled = layout.unlabelled(len(self), nulls, lacking)

    def _place_of(self, number: int) -> tuple[int, int]:
        """Return the index of a part's file, and the index of the part in the file."""
        file = int(np.searchsorted(self._first_parts, number, "right")) - 1
        return file, number - int(self._first_parts[file])

    def _fetch_part(self, number: int, indices: NDArray[np.int64]) -> list[Sample | BadSample]:
        file, part = self._place_of(number)
        values = self._values(file, part, (indices - self._starts[number]).tolist())
        in_file = (indices - self._file_starts[file]).tolist()
        return make_samples(self._layout, indices.tolist(), in_file, self._names[file], values)

    @abstractmethod
    def _values(self, file: int, part: int, rows: list[int]) -> Mapping[str, Sequence[Any]]:
        """Return one value per row for each column of the layout, by name.

        A value that cannot be read is an UnreadableValue.

        Args:
            file: Index of the file.
            part: Index of the part in the file.
            rows: Rows in the part, ascending and possibly repeated.
        """

    @abstractmethod
    def _labels(self, file: int, part: int) -> NDArray[np.int64] | UnreadableValue:
        """Return the labels of a part, int64 [rows], or int64 [1] if all rows have one label.

        An UnreadableValue is returned if the labels cannot be read.
        """
