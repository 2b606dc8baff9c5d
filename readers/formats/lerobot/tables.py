"""Columns of row groups of a LeRobot dataset's Parquet files as NumPy arrays."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.formats.lerobot.meta import Feature
from readers.formats.parquet.decoded_size import check_column, stored_range
from readers.formats.parquet.files import File, Footer, Location, open_for_arrow
from readers.formats.parquet.prefetched import hold
from readers.formats.registry import require
from readers.formats.tables.columns import one_line
from readers.sample import SourceError
from readers.storage.limits import check_bytes


class Table:
    """One Parquet file, opened.

    Args:
        root: Folder of the dataset.
        name: Name of the file below it.

    Attributes:
        name: As given.
        rows: Number of rows of each row group, int64 [groups].
        digest: Over its footer.

    Raises:
        SourceError: It is missing, not Parquet, cut off or encrypted.
    """

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self._location = Location(str(root / name), name, {})
        self._file = File(self._location)
        self.rows, self.digest = self._file.rows, self._file.digest

    def footer(self) -> Footer:
        """Read its footer again; see `Table.read`."""
        return self._file.footer(self._location)

    def read(self, group: int, names: Sequence[str], footer: Footer | None = None) -> Any:
        """Read some columns of a row group, as a pyarrow.Table.

        Raises:
            SourceError: It lacks a column, or cannot be read.
        """
        parquet = require("pyarrow.parquet", extra="arrow")
        footer, blob = footer or self.footer(), self._file.blob
        missing = [name for name in names if name not in footer.names]
        if missing:
            raise SourceError(
                f"{self.name} has no column {missing[0]!r}, which the dataset is said to have: restore the file"
            )
        try:
            leaves = [leaf for name in names for leaf in footer.leaves(group, name)]
            read = hold(blob, [stored_range(blob.size_bytes, *leaf) for leaf in leaves])
            check_bytes(sum(check_column(read, *leaf) for leaf in leaves), "a row group")
            opened = parquet.ParquetFile(
                open_for_arrow(read, blob.size_bytes),
                metadata=footer.metadata,
                pre_buffer=False,
                page_checksum_verification=True,
            )
            table = opened.read_row_group(group, columns=list(names), use_threads=False)
            if table.num_rows != self.rows[group]:
                raise ValueError(f"it holds {table.num_rows} rows instead of {self.rows[group]}")
        except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
            raise SourceError(
                f"row group {group} of {self.name} cannot be read: {one_line(error)}"
            ) from None
        return table

    def groups(self, names: Sequence[str]) -> Iterator[Any]:
        """Read some columns, a row group at a time; see `Table.read`."""
        footer = self.footer()
        for group in range(len(self.rows)):
            yield self.read(group, names, footer)


def to_array_with_gaps(
    column: Any, feature: Feature, where: str
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Turn a column, of which rows may be missing, into an array; see `to_array`.

    Returns:
        The array, 0 or empty where a row is missing; and bool [rows], which rows are, None where none is.
    """
    if not column.null_count:
        return to_array(column, feature, where), None
    there = column.is_valid().to_numpy()
    values = np.zeros((len(column), *feature.shape), feature.dtype or object)
    if feature.kind == "text":
        values[:] = ""
    values[there] = to_array(column.drop_null(), feature, where)
    return values, ~there


def to_array(column: Any, feature: Feature, where: str) -> NDArray[Any]:
    """Turn a column into an array.

    Args:
        column: A pyarrow.ChunkedArray of numbers, of lists of numbers, or of texts.
        feature: What it should be.
        where: For errors.

    Returns:
        [rows, *shape] of the feature's type; of texts an array of objects.

    Raises:
        SourceError: It is not that.
    """
    pa = require("pyarrow", extra="arrow")
    num_rows = len(column)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # of no chunks
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    try:
        if array.null_count:
            raise ValueError("a value is missing")
        if feature.kind == "text":
            return np.array([str(text) for text in array.to_pylist()] or [], object)
        while not pa.types.is_primitive(array.type):
            array = array.storage if isinstance(array, pa.ExtensionArray) else array.flatten()
        if array.null_count:
            raise ValueError("a value is missing")
        values = array.to_numpy(zero_copy_only=False)
        shaped: NDArray[Any] = values.astype(feature.dtype, copy=False)
        return shaped.reshape(num_rows, *feature.shape)
    except (ValueError, TypeError, NotImplementedError, AttributeError) as error:
        raise SourceError(
            f"column {feature.name!r} of {where} is not {feature.dtype or 'text'} of the shape "
            f"{list(feature.shape)} that meta/info.json tells: {one_line(error)}"
        ) from None
