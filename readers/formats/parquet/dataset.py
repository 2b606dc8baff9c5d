"""Parquet files: image and other columns of one row each, read at random."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import require
from readers.formats.columns import UNREADABLE, to_labels
from readers.formats.parquet.files import File, Location, find_files
from readers.formats.parquet.groups import RowGroups
from readers.formats.tables.columns import Column, UnreadableValue
from readers.formats.tables.layout import Layout, find_layout
from readers.formats.tables.parts import by_part, median_rows
from readers.formats.tables.values import make_samples
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.sample import BadSample, ColumnName, PathLike, Sample, SourceError, checked_indices
from readers.storage.traffic import CountingThreads
from readers.storage.unreadable import oserror_as_source_error

_MANY = 8
_MOST_THREADS = 8


class ParquetDataset(IndexedDataset):
    """Rows of Parquet files.

    The image is a column of bytes, or the struct of bytes and path that Hugging Face writes. Opening reads
    the footers only. Large values are found page by page (see `readers.formats.parquet.pages`): those stored
    without compression are views into the file's map and cost nothing, those that Snappy compressed cost
    the 64 KiB blocks they lie in, and other codecs the page, which pyarrow makes 1024 rows long. Small
    columns (labels, keys, captions) are decoded by pyarrow for a whole row group and kept.

    An order over all samples therefore costs little with the first two and much with the others, unless
    pages are small; `block_size` is the row group, the unit in which such files are best shuffled.

    Args:
        files: A file, a folder with .parquet files in it (also in folders such as ``label=3``, which
            become a column), or a sequence of files or URLs. The samples follow this order.
        image: Column of the image; None looks for the usual names, then for the only column of bytes.
        label: Column of the class number, whole numbers or digits; None looks for the usual names.
        key: Column that names the samples; None looks for the usual names, then counts rows.
        columns: Which columns become fields; None for all. Others are not read.
        decoded_bytes: Maximum size of decoded values kept in memory. It should hold the row groups that
            an order comes back to.

    Raises:
        SourceError: A file is missing, not Parquet, cut off, encrypted, lacks the image, or a column has a type
            that cannot serve; or there are no rows at all.
    """

    def __init__(
        self,
        files: PathLike | Sequence[PathLike | Location],
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
        decoded_bytes: int = 512 << 20,
    ) -> None:
        require("pyarrow.parquet", extra="arrow")
        if isinstance(columns, str):
            raise SourceError(
                f"columns must be a sequence of names, got {columns!r}: write [{columns!r}]"
            )
        self._options: dict[str, Any] = {
            "image": image,
            "label": label,
            "key": key,
            "columns": None if columns is None else list(columns),
            "decoded_bytes": decoded_bytes,
        }
        self._locations = find_files(files)
        self._files = _open_all(self._locations)
        self._layout, lacking = _common_layout(
            self._locations, self._files, image, label, key, columns
        )
        num_groups = [len(file.rows) for file in self._files]
        self._first_groups = np.cumsum([0, *num_groups])
        rows = np.concatenate([file.rows for file in self._files])
        self._starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
        self._file_starts = self._starts[self._first_groups]
        if not len(self):
            raise SourceError(
                f"{self._locations[0].shown} holds no rows: leave it out, or write it again"
            )
        nulls = (file.nulls for file in self._files)
        self.unlabelled = self._layout.unlabelled(len(self), nulls, lacking)
        self._decoded_bytes = decoded_bytes
        self._live = _ProcessState(self._open_groups())

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the files itself."""
        return _reopen, (type(self), self._locations, self._options)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def class_names(self) -> tuple[str, ...]:
        """From Hugging Face's ClassLabel; else empty."""
        return self._layout.class_names

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`."""
        return self._layout.remarks

    @property
    def label_column(self) -> str | None:
        """The column that labels are taken from."""
        return self._layout.label

    def has_column(self, name: str) -> bool:
        """Whether a column of this name is read."""
        return name in self._layout.columns

    @property
    def file_starts(self) -> NDArray[np.int64]:
        """Index of the first sample of each file, and the number of all, int64 [files + 1]."""
        starts: NDArray[np.int64] = self._file_starts
        return starts

    @property
    def sample_files(self) -> list[SampleFile]:
        """See `IndexedDataset.sample_files`."""
        rows = np.diff(self._file_starts).tolist()
        return [
            SampleFile(location.text, file.digest[:32], num_rows)
            for location, file, num_rows in zip(self._locations, self._files, rows, strict=True)
        ]

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the names of the files, their footers, and which columns are read.

        A footer tells the schema and, for each column of each row group, its offset, size and usually its
        smallest and largest value. An image replaced by another one of the same length goes unseen.
        """
        digest = hashlib.sha256(self._layout.identity.encode())
        for location, file in zip(self._locations, self._files, strict=True):
            digest.update(f"{location.name!r} {file.digest}\n".encode())
        return digest.hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """Rows of the median row group."""
        return median_rows(self._starts)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read each row group once that the batch touches; see `Dataset.fetch`."""
        wanted = np.array(checked_indices(indices, len(self)), np.int64)
        result: list[Any] = [None] * len(wanted)

        def fetch(task: tuple[int, NDArray[np.int64]]) -> None:
            number, positions = task
            samples = self._fetch_group(number, wanted[positions])
            for position, sample in zip(positions.tolist(), samples, strict=True):
                result[position] = sample

        tasks = by_part(wanted, self._starts)
        live = self._process_state()
        if len(tasks) > 1 and any(self._waits(number) for number, _ in tasks):
            list(live.pool.map(fetch, tasks))
        else:
            for task in tasks:
                fetch(task)
        return result

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; labels are read from their column, sizes are not known."""
        if name != "label" or self._layout.label is None:
            return np.full(len(self), -1 if name in ("label", "num_bytes") else 0, np.int64)
        result = np.empty(len(self), np.int64)
        reasons: dict[int, str] = {}

        def read(number: int) -> None:
            start, stop = self._starts[number : number + 2].tolist()
            found = self._labels(number)
            if isinstance(found, UnreadableValue):
                reasons[start] = str(found)
            result[start:stop] = UNREADABLE if isinstance(found, UnreadableValue) else found

        list(self._process_state().pool.map(read, range(len(self._starts) - 1)))
        return self._readable(result, reasons)

    def _waits(self, number: int) -> bool:
        """Whether a row group is decompressed or fetched from afar; views are faster had one by one."""
        file = int(np.searchsorted(self._first_groups, number, "right")) - 1
        return self._files[file].waits

    def _labels(self, number: int) -> "NDArray[np.int64] | UnreadableValue":
        """The labels of a row group; of a partition the one of all its rows."""
        assert self._layout.label is not None
        file = int(np.searchsorted(self._first_groups, number, "right")) - 1
        group = number - int(self._first_groups[file])
        with oserror_as_source_error(self._locations[file].text):
            found = self._process_state().groups.whole(file, group, self._layout.label)
        if isinstance(found, Column):
            return found.labels()
        return found if isinstance(found, UnreadableValue) else to_labels([found])

    def _process_state(self) -> "_ProcessState":
        """State of this process alone; a forked process starts without it."""
        if self._live.pid != os.getpid():
            self._live = _ProcessState(self._open_groups())
        return self._live

    def _open_groups(self) -> RowGroups:
        return RowGroups(self._locations, self._files, self._layout, self._decoded_bytes)

    def _fetch_group(self, number: int, indices: NDArray[np.int64]) -> list[Sample | BadSample]:
        file = int(np.searchsorted(self._first_groups, number, "right")) - 1
        group = number - int(self._first_groups[file])
        values = self._process_state().groups.values(
            file, group, (indices - self._starts[number]).tolist()
        )
        in_file = (indices - self._file_starts[file]).tolist()
        return make_samples(
            self._layout, indices.tolist(), in_file, self._locations[file].name, values
        )


class _ProcessState:
    """Per-process state of a dataset, neither pickled nor inherited."""

    def __init__(self, groups: RowGroups) -> None:
        self.pid, self.groups = os.getpid(), groups
        self.pool = CountingThreads(min(_MOST_THREADS, os.cpu_count() or 1), "parquet")


def _reopen(
    kind: type[ParquetDataset], locations: list[Location], options: dict[str, Any]
) -> ParquetDataset:
    return kind(locations, **options)


def _open_all(locations: list[Location]) -> list[File]:
    """Open files, a share of them in each thread, and keep one object of schemas that are the same.

    Of 2,000 files the schemas take 20 MB, and what is left behind by as many tasks takes 60.
    """
    first = File(locations[0])

    def opened(share: list[Location]) -> list[File]:
        files = []
        for location in share:
            file = File(location)
            if file.schema.equals(first.schema, check_metadata=True):
                file.schema = first.schema
            files.append(file)
        return files

    rest = locations[1:]
    if len(locations) < _MANY:
        return [first, *opened(rest)]
    found: list[Any] = [first] * len(rest)
    with ThreadPoolExecutor(_MANY) as pool:
        shares = pool.map(opened, [rest[number::_MANY] for number in range(_MANY)])
        for number, share in enumerate(shares):
            found[number::_MANY] = share
    return [first, *found]


def _common_layout(
    locations: list[Location],
    files: list[File],
    image: str | None,
    label: str | None,
    key: str | None,
    columns: Sequence[str] | None,
) -> tuple[Layout, list[tuple[str, int]]]:
    """Decide from the columns of all files together, and see that each has an image of the same kind.

    Where a file lacks another column, its samples lack the field. Return also the names and numbers of rows of the files that
    lack labels.
    """
    schema = files[0].schema
    for file in files:
        known = set(schema.names)
        for field in file.schema if file.schema is not schema else ():
            if field.name not in known:
                schema = schema.append(field)
    layout = find_layout(
        schema,
        image=image,
        label=label,
        key=key,
        columns=columns,
        source=locations[0].shown,
        further=locations[0].partitions,
    )
    for location, file in zip(locations, files, strict=True):
        if file.schema is not schema and not file.schema.equals(schema):
            there = {*file.schema.names, *location.partitions}
            other = find_layout(
                file.schema,
                image=layout.image,
                label=layout.label if layout.label in there else None,
                key=layout.key if layout.key in there else None,
                columns=[name for name in layout.columns if name in there],
                source=location.shown,
                further=location.partitions,
            )
            if other.image_in_struct != layout.image_in_struct:
                raise SourceError(
                    f"column {layout.image!r} is of another type in {location.shown} than in "
                    f"{locations[0].shown}: open them as two datasets"
                )
    lacking = [
        (location.name, int(file.rows.sum()))
        for location, file in zip(locations, files, strict=True)
        # A partition of which the folder tells no value is one without labels, too.
        if layout.label is not None
        and layout.label not in file.schema.names
        and location.partitions.get(layout.label) is None
    ]
    for file in files:
        file.schema = None
    return layout, lacking
