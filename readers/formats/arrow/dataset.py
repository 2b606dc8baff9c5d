"""Datasets of Arrow files, including those that Hugging Face's datasets saved."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.fingerprint import fingerprint_of
from readers.formats.arrow.files import ArrowFile, find_arrow_files
from readers.formats.columns import ColumnOptions
from readers.formats.tables.columns import Column, Columns, UnreadableValue, column_of, one_line
from readers.formats.tables.layout import find_layout
from readers.formats.tables.rows import RowFilesDataset
from readers.plural import counted
from readers.sample import PathLike, SourceError
from readers.storage.lru_cache import Recent
from readers.storage.per_process import PerProcess

_MANY = 8  # smallest number of files that are opened by threads, and the number of threads: opening waits for the disk
# Up to 64 MB the fingerprint covers all content, which takes a few hundredths of a second; of more, 1024 pieces.
_FULLY_HASHED_BYTES, _NUM_PIECES = 64 << 20, 1024


class ArrowDataset(RowFilesDataset):
    """Rows of Arrow files, and of folders that Hugging Face's datasets saved.

    Files may be in Arrow's file format or stream format. A folder is one that ``Dataset.save_to_disk`` wrote,
    or one that holds .arrow files.

    Files are memory-mapped. Byte fields above 1 MiB are views into the mapping, which stays open as long as a view
    exists; smaller ones are copied. Record batches of a compressed file are decompressed as a whole and cached up to
    `decoded_bytes`. The image is a column of bytes, or Hugging Face's struct of bytes and path.

    Rows that a file loses because it is shortened in place become BadSamples. pyarrow reads the mapping when a file is
    opened and when a record batch is first used; the process ends if the file shrinks at that very moment.

    Args:
        source: Path of a file or folder, or a sequence of such paths. The samples follow this order.
        image: Column of the image; if None, the first usual name that exists, or else the only column of bytes.
        label: Column of the class number, integers or text of digits; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the columns that become fields; None for all. Other columns are not read.
        decoded_bytes: Maximum size in bytes of the decompressed record batches that stay in memory.

    Raises:
        SourceError: A file is missing, truncated or not Arrow; a column is missing or has a type that cannot take its role;
            a folder holds several splits; or there are no rows.
    """

    def __init__(
        self,
        source: PathLike | Sequence[PathLike],
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
        decoded_bytes: int = 128 << 20,
    ) -> None:
        self._options = ColumnOptions(image, label, key, columns)
        self._source = paths = find_arrow_files(source)
        self._files = _open_all(paths)
        layouts = [
            find_layout(file.schema, self._options, path)
            for file, path in zip(self._files, paths, strict=True)
        ]
        self._layout = layouts[0]
        for layout, path in zip(layouts, paths, strict=True):
            if layout != self._layout:
                raise SourceError(
                    f"{path} has other columns than {paths[0]}: open them as two datasets, or name the "
                    "columns that they share with columns="
                )
        names = [file.name for file in self._files]
        rows = [file.rows for file in self._files]
        self._set_parts(names, rows, (file.nulls for file in self._files), source=paths[0])
        self._decoded_bytes = decoded_bytes
        self._recent = PerProcess[Recent[Columns]](partial(Recent, decoded_bytes))

    @property
    def remarks(self) -> tuple[str, ...]:
        unended = [file.name for file in self._files if not file.is_ended]
        if not unended:
            return self._layout.remarks
        return (
            *self._layout.remarks,
            f"{len(unended):,} of {counted(len(self._files), 'stream')} of record batches end without the mark that a finished one "
            f"has ({few_of(unended)}): rows behind it may be missing, so count them, or write the files again",
        )

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the columns that are read and of the files' names, schemas, record batches and content.

        If the files have more than 64 MB together, only 1024 evenly spread pieces of 4 kB of their content are hashed, so
        that a change of a few bytes between these pieces goes unseen.
        """
        small = sum(file.size_bytes for file in self._files) <= _FULLY_HASHED_BYTES
        num_pieces = None if small else max(4, _NUM_PIECES // len(self._files))
        files = (f"{file.name!r} {file.digest(num_pieces)}\n" for file in self._files)
        return fingerprint_of(self._layout.identity, *files)

    def _values(self, file: int, part: int, rows: list[int]) -> dict[str, Sequence[Any]]:
        recent = self._recent.get()
        columns = recent.get((file, part), lambda: self._read(file, part, self._layout.columns))
        if columns.has_unreadable:
            recent.drop((file, part))  # a read that failed may succeed later
        return columns.values_of(rows)

    def _labels(self, file: int, part: int) -> NDArray[np.int64] | UnreadableValue:
        assert self._layout.label is not None
        [labels] = self._read(file, part, (self._layout.label,)).values()
        return labels.labels() if isinstance(labels, Column) else labels

    def _read(self, file: int, part: int, names: Sequence[str]) -> Columns:
        """Return columns of a record batch; if it cannot be read, each column is an `UnreadableValue`."""
        opened = self._files[file]
        try:
            batch = opened.batch(part)
            if batch.num_rows != opened.rows[part]:
                raise ValueError("it has changed")
            return Columns(
                {
                    name: column_of(self._layout, name, batch.column(name), opened.mapped)
                    for name in names
                }
            )
        except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
            reason = getattr(error, "strerror", None) or one_line(error)
            return Columns.unreadable(names, f"record batch {part} cannot be read: {reason}", error)


def _open_all(paths: list[str]) -> list[ArrowFile]:
    if len(paths) < _MANY:
        return [ArrowFile(path) for path in paths]
    with ThreadPoolExecutor(_MANY) as pool:
        return list(pool.map(ArrowFile, paths))
