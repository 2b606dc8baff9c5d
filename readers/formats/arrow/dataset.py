"""Arrow files, including those saved by Hugging Face datasets."""

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

_MANY = 8  # files from which threads pay, and as many threads: opening a file waits for the disk
# Up to 64 MB all content enters the fingerprint, which takes a few hundredths of a second; beyond that pieces of it.
_FULLY_HASHED_BYTES, _NUM_PIECES = 64 << 20, 1024


class ArrowDataset(RowFilesDataset):
    """Rows of Arrow files, and of folders that Hugging Face's datasets saved.

    Files are of the file format or the stream format; a folder is one that ``Dataset.save_to_disk`` wrote,
    or one with .arrow files in it.

    Fields of bytes are read where they lie; those of more than 1 MiB are views into the file's map, and keep it
    mapped as long as they live. Of a compressed file record batches are decompressed whole, and some are kept.
    The image is a column of bytes, or Hugging Face's struct of bytes and path.

    A file that is shortened in place gives BadSamples. pyarrow itself looks into the map when a file is opened and
    when a record batch is first used, which ends the process if the file shrinks in that very moment.

    Args:
        source: A file, a folder, or a sequence of them. The samples follow this order.
        image: Column of the image; None looks for the usual names, then for the only column of bytes.
        label: Column of the class number, whole numbers or digits; None looks for the usual names.
        key: Column that names the samples; None looks for the usual names, then counts rows.
        columns: Which columns become fields; None for all. Others are not read.
        decoded_bytes: Maximum size of decompressed record batches kept in memory.

    Raises:
        SourceError: A file is missing, not Arrow, cut off, lacks a column, or one has a type that cannot
            serve; a folder holds several splits; or there are no rows at all.
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
        """32 hex digits over the columns that are read, and names, schemas, record batches and content.

        All of the content counts up to 64 MB; beyond that 1024 pieces of 4 kB, evenly spread, so that a
        change of a few bytes elsewhere goes unseen.
        """
        small = sum(file.size_bytes for file in self._files) <= _FULLY_HASHED_BYTES
        num_pieces = None if small else max(4, _NUM_PIECES // len(self._files))
        files = (f"{file.name!r} {file.digest(num_pieces)}\n" for file in self._files)
        return fingerprint_of(self._layout.identity, *files)

    def _values(self, file: int, part: int, rows: list[int]) -> dict[str, Sequence[Any]]:
        recent = self._recent.get()
        columns = recent.get((file, part), lambda: self._read(file, part, self._layout.columns))
        if columns.has_unreadable:
            recent.drop((file, part))  # what failed once may not fail again
        return columns.values_of(rows)

    def _labels(self, file: int, part: int) -> NDArray[np.int64] | UnreadableValue:
        assert self._layout.label is not None
        [labels] = self._read(file, part, (self._layout.label,)).values()
        return labels.labels() if isinstance(labels, Column) else labels

    def _read(self, file: int, part: int, names: Sequence[str]) -> Columns:
        """Read columns of a record batch."""
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
