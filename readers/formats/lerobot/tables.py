"""Tables of a LeRobot dataset, read as NumPy arrays; decoded row groups are cached."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.formats.lerobot.meta import Feature, Root
from readers.formats.parquet.files import File, Footer, Location
from readers.formats.tables.columns import one_line
from readers.sample import SourceError
from readers.storage.lru_cache import Recent
from readers.storage.per_process import PerProcess

_FOOTERS_BYTES = 64 << 20  # limit of cached footers; one takes some 100 kB


class Table:
    """One open Parquet file of a LeRobot dataset.

    Args:
        root: Folder of the dataset.
        name: Name of the file, relative to the folder.

    Attributes:
        name: Name of the file, as given.
        location: Path or URL of the file.
        rows: Number of rows of each row group, int64 [groups].
        digest: Hash of the file's footer, 64 hex digits.

    Raises:
        SourceError: The file is missing, truncated, encrypted or not Parquet.
    """

    def __init__(self, root: Root, name: str) -> None:
        self.name = name
        self.location = Location(os.fspath(root / name), name, {})
        self._file = File(self.location)
        self.rows, self.digest = self._file.rows, self._file.digest

    def footer(self) -> Footer:
        """Read the file's footer again, and return it."""
        return self._file.footer(self.location)

    def read(self, group: int, names: Sequence[str], footer: Footer | None = None) -> Any:
        """Return some columns of a row group, as a pyarrow.Table.

        Raises:
            SourceError: A column is missing, or the row group cannot be read.
        """
        footer = footer or self.footer()
        missing = [name for name in names if name not in footer.names]
        if missing:
            raise SourceError(
                f"{self.name} has no column {missing[0]!r}, which meta/info.json lists: restore the file"
            )
        try:
            return self._file.read_group(footer, group, names, "a row group")
        except Exception as error:  # noqa: BLE001, pyarrow raises errors of all of Python's classes
            raise SourceError(
                f"row group {group} of {self.name} cannot be read: {one_line(error)}"
            ) from None

    def groups(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield some columns of each row group in turn, as pyarrow.Tables; see `Table.read` for errors."""
        footer = self.footer()
        for group in range(len(self.rows)):
            yield self.read(group, names, footer)


class UnreadableTable(Table):
    """A Parquet file of a LeRobot dataset that cannot be opened; every read raises the reason.

    Args:
        name: Name of the file, relative to the dataset's folder.
        num_rows: Number of rows that the file should have.
        reason: Why it cannot be opened.
    """

    def __init__(self, name: str, num_rows: int, reason: str) -> None:
        self.name, self.reason = name, reason
        self.rows, self.digest = np.array([num_rows]), "unreadable"

    def footer(self) -> Footer:
        """Raise a SourceError with the reason."""
        raise SourceError(self.reason)


def to_array_with_gaps(
    column: Any, feature: Feature, where: str
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return a column that may have nulls as an array, and where the nulls are; see `to_array` for the arguments.

    Returns:
        The array, with 0 or "" in place of nulls; and bool [rows], true for nulls, or None if there are none.
    """
    if not column.null_count:
        return to_array(column, feature, where), None
    is_valid = column.is_valid().to_numpy()
    values = np.zeros((len(column), *feature.shape), feature.dtype or object)
    if feature.kind == "text":
        values[:] = ""
    values[is_valid] = to_array(column.drop_null(), feature, where)
    return values, ~is_valid


def to_array(column: Any, feature: Feature, where: str) -> NDArray[Any]:
    """Return a column without nulls as a NumPy array.

    Args:
        column: The column, a pyarrow.ChunkedArray of numbers, of nested lists of numbers, or of text.
        feature: Feature with the expected dtype and shape.
        where: Name of the table, for errors.

    Returns:
        Array [rows, *shape] of the feature's dtype; for text an object array of str.

    Raises:
        SourceError: The column has another dtype or shape, or holds a null.
    """
    pa = require("pyarrow", extra="arrow")
    num_rows = len(column)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # a column without chunks stays one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    try:
        if array.null_count:
            raise ValueError("a value is missing")
        if feature.kind == "text":
            texts = [one if isinstance(one, str) else _to_json(one) for one in array.to_pylist()]
            return np.array(texts or [], object)
        while not pa.types.is_primitive(array.type):
            array = array.storage if isinstance(array, pa.ExtensionArray) else array.flatten()
        if array.null_count:
            raise ValueError("a value is missing")
        values = array.to_numpy(zero_copy_only=False)
        shaped: NDArray[Any] = values.astype(feature.dtype, copy=False)
        return shaped.reshape(num_rows, *feature.shape)
    except (ValueError, TypeError, NotImplementedError, AttributeError) as error:
        raise SourceError(
            f"column {feature.column!r} of {where} is not {feature.dtype or 'text'} of the shape "
            f"{list(feature.shape)} in meta/info.json: {one_line(error)}"
        ) from None


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Frames:
    """Reads the values of frames, except pictures, and caches decoded row groups.

    It may be used by several threads and after a fork.

    Args:
        tables: The tables that hold the frames.
        features: The features to read.
        decoded_bytes: Maximum size in bytes of the decoded row groups that stay in memory.
        conversions: For each feature whose values are converted, by name, a function from the stored values [rows, *shape]
            to the converted ones; it is called once per row group.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        decoded_bytes: int,
        conversions: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = MappingProxyType({}),
    ) -> None:
        self._tables, self._features = tables, {one.name: one for one in features}
        self._conversions = conversions
        self._groups = [
            (n, group) for n, one in enumerate(tables) for group in range(len(one.rows))
        ]
        sizes = [np.empty(0, np.int64), *(one.rows for one in tables)]
        # The first row of each group, and of each table, among the rows of all tables.
        self._starts = np.cumsum([0, *np.concatenate(sizes).tolist()])
        self._bases = np.cumsum([0, *(int(one.rows.sum()) for one in tables)])
        # Another thread may hold a lock of the caches when the process is forked.
        self._state = PerProcess(partial(_ProcessState, decoded_bytes))
        self._state.get()  # made here, because threads that make it at the same time would get different ones

    def locate(
        self, tables: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row groups of some rows, counted over all tables, and the rows in these groups.

        Args:
            tables: Index of each row's table, int64 of a shape that broadcasts with that of `rows`.
            rows: Rows in their tables, int64 of any shape.

        Returns:
            Two arrays of the shape of `rows`, int64.
        """
        rows = rows + self._bases[tables]
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        return groups, rows - self._starts[groups]

    def group(self, number: int) -> "RowGroup":
        """Return the decoded values of a row group, counted over all tables.

        Raises:
            SourceError: The values cannot be read.
            OSError: The file was removed or has changed.
        """
        state = self._state.get()
        return state.groups.get(number, lambda: self._read(state, *self._groups[number]))

    def whole(self, table: int, name: str) -> NDArray[Any]:
        """Return the stored values of one feature for all rows of a table, without caching them."""
        feature, one = self._features[name], self._tables[table]
        groups = one.groups([feature.column])
        parts = [to_array(group.column(feature.column), feature, one.name) for group in groups]
        return np.concatenate(parts) if parts else np.empty(0, feature.dtype or object)

    def _read(self, state: "_ProcessState", table: int, group: int) -> "RowGroup":
        one = self._tables[table]
        footer = state.footers.get(table, one.footer)
        read = one.read(group, [feature.column for feature in self._features.values()], footer)
        arrays = RowGroup()
        for name, feature in self._features.items():
            values, gaps = to_array_with_gaps(read.column(feature.column), feature, one.name)
            convert = self._conversions.get(name)
            arrays[name] = values if convert is None else convert(values)
            if gaps is not None:
                arrays.gaps[name] = gaps
        return arrays


class _ProcessState:
    """The footers and decoded row groups that one process has cached."""

    def __init__(self, decoded_bytes: int) -> None:
        self.footers: Recent[Footer] = Recent(_FOOTERS_BYTES)
        self.groups: Recent[RowGroup] = Recent(decoded_bytes)


class RowGroup(dict[str, NDArray[Any]]):
    """The decoded features of a row group, by name.

    Attributes:
        gaps: For each feature with nulls, by name, bool [rows] that is true for nulls.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gaps: dict[str, NDArray[np.bool_]] = {}

    def take(self, name: str, rows: int | NDArray[np.int64]) -> Any:
        """Return the values of one feature for some rows of the row group, or its value for one row.

        Raises:
            SourceError: A value is null.
        """
        if name in self.gaps and self.gaps[name][rows].any():
            raise SourceError(f"a row of its window has no {name!r}")
        return self[name][rows]

    @property
    def nbytes(self) -> int:
        """Approximate size in memory, in bytes."""
        texts = sum(len(text) for one in self.values() if one.dtype == object for text in one)
        return 500 + texts + sum(one.nbytes for one in self.values())
