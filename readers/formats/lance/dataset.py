"""Datasets of the rows of a Lance dataset at one version, with random access."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import require
from readers.fingerprint import fingerprint_of
from readers.formats.columns import ColumnOptions
from readers.formats.lance.library import (
    LanceError,
    blob_columns,
    fragments_of,
    lance,
    one_line_errors,
    open_version,
)
from readers.formats.tables.columns import UnreadableValue, column_of
from readers.formats.tables.layout import Layout, find_layout, unknown_column
from readers.formats.tables.values import make_samples
from readers.sample import BadSample, ColumnName, PathLike, Sample, SourceError, checked_indices
from readers.storage.limits import TooLargeError, check_bytes

_Values = dict[str, Sequence[Any]]


class LanceDataset(IndexedDataset):
    """Rows of a Lance dataset at one version.

    The version is fixed when the dataset is opened: later commits change nothing, also in processes that unpickle the
    dataset. Indices count the rows that are not deleted, in the order of a scan. The rows of a batch are read in one call.
    Values of blob columns (``lance.blob_field``, or the mark ``lance-encoding:blob``) are read completely; only their
    size is checked before reading (see `readers.storage.limits`).

    lance runs threads, which a fork does not copy, so that reading in a forked process raises an error; start processes
    with spawn.

    Args:
        source: Path of the folder, such as ``photos.lance``.
        version: Version number or tag; None for the newest version.
        image: Column of the image; if None, the first usual name that exists, or else the only column of bytes.
        label: Column of the class number, integers or text of digits; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the columns that become fields; None for all. Other columns are not read.

    Attributes:
        version: Version number that was opened.

    Raises:
        SourceError: The folder is no Lance dataset, or the dataset has no such version or column, or no rows.
    """

    def __init__(
        self,
        source: PathLike,
        *,
        version: int | str | None = None,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._options = ColumnOptions(image, label, key, columns)
        self._path = str(Path(os.fspath(source)).absolute())
        self._lance = open_version(self._path, version)
        self.version = int(self._lance.version)
        self._name = Path(self._path).name
        self._blobs = blob_columns(self._lance.schema)
        self._layout = layout = self._find_layout()
        self._class_names, self._remarks = layout.class_names, layout.remarks
        self._length = int(self._lance.count_rows())
        if not self._length:
            raise SourceError(f"{self._path} holds no rows at version {self.version}: open another")
        with suppress(LanceError), one_line_errors():  # damage raises an error when labels are read
            rows = f"`{layout.label}` IS NULL" if layout.label else None
            count = int(self._lance.count_rows(filter=rows))
            self.unlabelled = count, layout.fields, layout.unread_label

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, version and options; the process that unpickles opens this version again."""
        options = {**asdict(self._options), "version": self.version}
        return _reopen, (type(self), self._path, options, self.fingerprint)

    def __repr__(self) -> str:
        """Show the sample count, the classes and the version."""
        return f"{super().__repr__()[:-1]}, version {self.version})"

    def __len__(self) -> int:
        return self._length

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the columns that are read, and of the files and deletions that make up the version.

        Lance gives each file a random name that is never used again, so that the name stands for the content. The version
        number is not hashed, since a commit that changes no rows, such as a new index, leaves the samples unchanged.
        """
        fragments = (json.dumps(one, sort_keys=True) for one in fragments_of(self._lance))
        return fingerprint_of(f"lance 1 {self._layout.identity}", *fragments)

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; labels are read from the label column, and sizes are unknown.

        Raises:
            SourceError: The labels cannot be read.
        """
        label = self._layout.label
        if name != "label" or label is None:
            return unknown_column(name, len(self))
        lance()
        try:
            with one_line_errors():
                table = self._lance.scanner(columns=[label], scan_in_order=True).to_table()
        except LanceError as error:
            raise SourceError(f"the labels of {self._path} cannot be read: {error}") from None
        return self._readable(column_of(self._layout, label, table.column(label)).labels())

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples, whose rows are read in one call; see `Dataset.fetch`.

        Raises:
            SourceError: This process was forked from the one that opened the dataset.
        """
        wanted = np.array(checked_indices(indices, len(self)), np.int64)
        if not len(wanted):
            return []
        lance()
        rows, inverse = np.unique(wanted, return_inverse=True)
        values = self._read(rows.tolist())
        numbers = inverse.tolist()
        repeated = {name: [column[k] for k in numbers] for name, column in values.items()}
        return make_samples(self._layout, wanted.tolist(), wanted.tolist(), self._name, repeated)

    def _find_layout(self) -> Layout:
        pa = require("pyarrow", extra="lance")
        fields = [
            pa.field(field.name, pa.large_binary()) if field.name in self._blobs else field
            for field in self._lance.schema
        ]
        schema = pa.schema(fields, self._lance.schema.metadata)
        return find_layout(schema, self._options, self._path)

    def _read(self, rows: list[int]) -> _Values:
        """Return one value per row for each column, by name; values of an unreadable row are `UnreadableValue`s.

        A failed read is repeated row by row, so that only bad rows are lost.
        """
        try:
            return self._take(rows)
        except LanceError as error:
            if len(rows) == 1:
                unreadable = UnreadableValue(f"the row cannot be read: {error}")
                return {name: [unreadable] for name in self._layout.columns}
        single = [self._read([row]) for row in rows]
        return {name: [values[name][0] for values in single] for name in self._layout.columns}

    def _take(self, rows: list[int]) -> _Values:
        plain = [name for name in self._layout.columns if name not in self._blobs]
        values: _Values = {}
        with one_line_errors():
            if plain:
                table = self._lance.take(rows, columns=plain)
                for name in plain:
                    column = column_of(self._layout, name, table.column(name))
                    values[name] = column.values(range(len(rows)))
            for name in self._layout.columns:
                if name in self._blobs:
                    files = self._lance.take_blobs(name, indices=rows)
                    values[name] = [_content(file) for file in files]
        return values


def _content(blob: Any) -> "bytes | UnreadableValue | None":
    """Return the content of a lance.BlobFile; None for a null value, an `UnreadableValue` if it is too large."""
    if blob is None:
        return None
    try:
        check_bytes(blob.size(), "the value")
        with blob:
            return bytes(blob.readall())
    except TooLargeError as error:
        return UnreadableValue(str(error))


def _reopen(
    kind: type[LanceDataset], path: str, options: dict[str, Any], fingerprint: str
) -> LanceDataset:
    dataset = kind(path, **options)
    if dataset.fingerprint != fingerprint:
        raise SourceError(
            f"{path} has been written anew since it was opened, and version {dataset.version} is another one: "
            "open it again"
        )
    return dataset
