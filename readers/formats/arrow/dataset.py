"""Arrow files, including those saved by Hugging Face datasets."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.describe import few_of
from readers.formats.arrow.files import ArrowFile, find_arrow_files
from readers.formats.columns import UNREADABLE
from readers.formats.tables.columns import Column, UnreadableValue, column_of, one_line
from readers.formats.tables.layout import find_layout
from readers.formats.tables.parts import by_part, median_rows
from readers.formats.tables.values import make_samples
from readers.plural import counted
from readers.sample import BadSample, ColumnName, PathLike, Sample, SourceError, checked_indices
from readers.storage.lru_cache import Recent
from readers.storage.unreadable import is_transient

_MANY = 8
_WHOLE_BYTES, _NUM_PIECES = 64 << 20, 1024
_Columns = dict[str, Column | UnreadableValue]


class ArrowDataset(IndexedDataset):
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
        if isinstance(columns, str):
            raise SourceError(
                f"columns must be a sequence of names, got {columns!r}: write [{columns!r}]"
            )
        paths = find_arrow_files(source)
        self._options = {
            "image": image,
            "label": label,
            "key": key,
            "columns": None if columns is None else list(columns),
            "decoded_bytes": decoded_bytes,
        }
        self._paths = paths
        self._files = _open_all(paths)
        layouts = [
            find_layout(
                file.schema, image=image, label=label, key=key, columns=columns, source=path
            )
            for file, path in zip(self._files, paths, strict=True)
        ]
        self._layout = layouts[0]
        for layout, path in zip(layouts, paths, strict=True):
            if layout != self._layout:
                raise SourceError(
                    f"{path} has other columns than {paths[0]}: open them as two datasets, or name the "
                    "columns that they share with columns="
                )
        self._first_batches = np.cumsum([0, *(len(file.rows) for file in self._files)])
        rows = np.concatenate([file.rows for file in self._files])
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
        self._file_starts = self._starts[self._first_batches]
        if not len(self):
            raise SourceError(f"{paths[0]} holds no rows: leave it out, or write it again")
        nulls = (file.nulls for file in self._files)
        self.unlabelled = self._layout.unlabelled(len(self), nulls)
        self._decoded_bytes = decoded_bytes
        self._recent: Recent[_Batch] = Recent(decoded_bytes)
        self._pid = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process maps the files itself."""
        return _reopen, (type(self), self._paths, self._options)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def class_names(self) -> tuple[str, ...]:
        """From Hugging Face's ClassLabel; else empty."""
        return self._layout.class_names

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`."""
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
        digest = hashlib.sha256(self._layout.identity.encode())
        small = sum(file.size_bytes for file in self._files) <= _WHOLE_BYTES
        num_pieces = None if small else max(4, _NUM_PIECES // len(self._files))
        for file in self._files:
            digest.update(f"{file.name!r} {file.digest(num_pieces)}\n".encode())
        return digest.hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """Rows of the median record batch."""
        return median_rows(self._starts)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read the rows; see `Dataset.fetch`."""
        wanted = np.array(checked_indices(indices, len(self)), np.int64)
        result: list[Any] = [None] * len(wanted)
        for _, positions in by_part(wanted, self._starts):
            samples = self._fetch_batch(wanted[positions])
            for position, sample in zip(positions.tolist(), samples, strict=True):
                result[position] = sample
        return result

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; labels are read from their column, sizes are not known."""
        label = self._layout.label
        if name != "label" or label is None:
            return np.full(len(self), -1 if name in ("label", "num_bytes") else 0, np.int64)
        result = np.full(len(self), UNREADABLE, np.int64)
        reasons: dict[int, str] = {}
        for number in range(len(self._starts) - 1):
            start, stop = self._starts[number : number + 2].tolist()
            column = self._batch(number, (label,)).columns[label]
            if isinstance(column, Column):
                result[start:stop] = column.labels()
            else:
                reasons[start] = str(column)
        return self._readable(result, reasons)

    def _fetch_batch(self, indices: NDArray[np.int64]) -> list[Sample | BadSample]:
        number = int(np.searchsorted(self._starts, indices[0], "right")) - 1
        file = int(np.searchsorted(self._first_batches, number, "right")) - 1
        columns = self._kept(number).columns
        rows = (indices - self._starts[number]).tolist()
        values = {
            name: [column] * len(rows)
            if isinstance(column, UnreadableValue)
            else column.values(rows)
            for name, column in columns.items()
        }
        in_file = (indices - self._file_starts[file]).tolist()
        return make_samples(self._layout, indices.tolist(), in_file, self._files[file].name, values)

    def _kept(self, number: int) -> "_Batch":
        if self._pid != os.getpid():  # a fork may have been made while another thread held its lock
            self._recent, self._pid = Recent(self._decoded_bytes), os.getpid()
        kept = self._recent.get(number, lambda: self._batch(number, self._layout.columns))
        if any(isinstance(column, UnreadableValue) for column in kept.columns.values()):
            self._recent.drop(number)  # what failed once may not fail again
        return kept

    def _batch(self, number: int, names: Sequence[str]) -> "_Batch":
        number_of_file = int(np.searchsorted(self._first_batches, number, "right")) - 1
        file = self._files[number_of_file]
        inside = number - int(self._first_batches[number_of_file])
        found: _Columns = {}
        try:
            batch = file.batch(inside)
            if batch.num_rows != file.rows[inside]:
                raise ValueError("it has changed")
            for name in names:
                found[name] = column_of(self._layout, name, batch.column(name), file.mapped)
        except Exception as error:  # noqa: BLE001, pyarrow has an error of each of Python's kinds
            reason = getattr(error, "strerror", None) or one_line(error)
            lost = UnreadableValue(
                f"record batch {inside} cannot be read: {reason}", is_transient(error)
            )
            found = dict.fromkeys(names, lost)
        return _Batch(found)


class _Batch:
    """Columns of a record batch."""

    def __init__(self, columns: _Columns) -> None:
        self.columns = columns
        self.nbytes = 500 + sum(
            1500 + each.nbytes for each in columns.values() if isinstance(each, Column)
        )


def _reopen(kind: type[ArrowDataset], paths: list[str], options: dict[str, Any]) -> ArrowDataset:
    return kind(paths, **options)


def _open_all(paths: list[str]) -> list[ArrowFile]:
    if len(paths) < _MANY:
        return [ArrowFile(path) for path in paths]
    with ThreadPoolExecutor(_MANY) as pool:
        return list(pool.map(ArrowFile, paths))
