"""Datasets of Parquet files, one sample per row, with random access."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.detect.registry import require
from readers.fingerprint import fingerprint_of
from readers.formats.columns import ColumnOptions, to_labels
from readers.formats.parquet.files import File, Location, find_files
from readers.formats.parquet.groups import RowGroups
from readers.formats.tables.columns import Column, UnreadableValue
from readers.formats.tables.layout import Layout, find_layout
from readers.formats.tables.rows import RowFilesDataset
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.sample import PathLike, SourceError
from readers.storage.per_process import PerProcess
from readers.storage.traffic import CountingThreads
from readers.storage.unreadable import oserror_as_source_error

_MANY = 8  # smallest number of files that are opened by threads, and the number of threads: opening waits for the disk
_MAX_THREADS = 8  # decompressing and fetching gain little from more threads


class ParquetDataset(RowFilesDataset):
    """Rows of Parquet files.

    The image is a column of bytes, or the struct of bytes and path that Hugging Face writes. Opening reads
    only the footers. Columns of large values are read page by page (see `readers.formats.parquet.pages`). To read one value
    costs a copy of its bytes if it is uncompressed (above 1 MiB it is a view into the mapped file), the decompression of one
    or more 64 KiB blocks with Snappy, and the decompression of a page with other codecs; pyarrow writes pages of 1024 rows.
    Columns of small values (labels, keys, captions) are decoded by pyarrow for a complete row group and cached.

    A shuffle over all samples is therefore cheap without compression and with Snappy, but expensive with other codecs, unless
    pages are small. `block_size` is the size of a row group, the best unit for shuffling such files.

    Args:
        files: Path or URL of a file, path of a folder that holds .parquet files (also in folders such as ``label=3``, which
            become a column), or a sequence of these. The samples follow this order.
        image: Column of the image; if None, the first usual name that exists, or else the only column of bytes.
        label: Column of the class number, integers or text of digits; if None, the first usual name that exists.
        key: Column of the keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the columns that become fields; None for all. Other columns are not read.
        decoded_bytes: Maximum size in bytes of the decoded values that stay in memory. Row groups from which samples are
            read again and again should fit in.

    Raises:
        SourceError: A file is missing, truncated, encrypted or not Parquet; the image column is missing; a column has a
            type that cannot take its role; or there are no rows.
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
        self._options = ColumnOptions(image, label, key, columns)
        self._source = self._locations = find_files(files)
        self._files = _open_all(self._locations)
        self._layout, lacking = _common_layout(self._locations, self._files, self._options)
        names = [location.name for location in self._locations]
        rows = [file.rows for file in self._files]
        nulls = (file.nulls for file in self._files)
        self._set_parts(names, rows, nulls, lacking, source=self._locations[0].shown)
        self._decoded_bytes = decoded_bytes
        make = partial(RowGroups, self._locations, self._files, self._layout, decoded_bytes)
        self._groups = PerProcess(make)
        num_threads = min(_MAX_THREADS, os.cpu_count() or 1)
        self._threads = PerProcess(partial(CountingThreads, num_threads, "parquet"))

    @property
    def label_column(self) -> str | None:
        """Name of the label column, None if there is none."""
        return self._layout.label

    def has_column(self, name: str) -> bool:
        """Return whether the dataset reads a column with this name."""
        return name in self._layout.columns

    @property
    def file_starts(self) -> NDArray[np.int64]:
        """Index of the first sample of each file, followed by the number of all samples, int64 [files + 1]."""
        starts: NDArray[np.int64] = self._file_starts
        return starts

    @property
    def sample_files(self) -> list[SampleFile]:
        rows = np.diff(self._file_starts).tolist()
        return [
            SampleFile(location.text, file.digest[:32], num_rows)
            for location, file, num_rows in zip(self._locations, self._files, rows, strict=True)
        ]

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' names, their footers, and the columns that are read.

        A footer holds the schema and, for each column of each row group, its offset, size and usually its
        smallest and largest value. So the replacement of an image by another one of equal length goes unseen.
        """
        pairs = zip(self._locations, self._files, strict=True)
        files = (f"{location.name!r} {file.digest}\n" for location, file in pairs)
        return fingerprint_of(self._layout.identity, *files)

    def _pool(self, numbers: Sequence[int]) -> CountingThreads | None:
        """Return the thread pool if reading means decompressing or fetching; None if row groups are faster one by one."""
        waits = (self._files[self._place_of(number)[0]].waits for number in numbers)
        return self._threads.get() if any(waits) else None

    def _values(self, file: int, part: int, rows: list[int]) -> dict[str, Sequence[Any]]:
        return self._groups.get().values(file, part, rows)

    def _labels(self, file: int, part: int) -> NDArray[np.int64] | UnreadableValue:
        """Return the labels of a row group; one label, int64 [1], if it comes from the name of a partition folder."""
        assert self._layout.label is not None
        with oserror_as_source_error(self._locations[file].text):
            found = self._groups.get().whole(file, part, self._layout.label)
        if isinstance(found, Column):
            return found.labels()
        return found if isinstance(found, UnreadableValue) else to_labels([found])


def _open_all(locations: list[Location]) -> list[File]:
    """Open all files, in threads if there are many; files with equal schemas share one schema object.

    The schemas of 2,000 files take 20 MB. A thread opens a share of the files, since one task per file would leave 60 MB
    of memory allocated.
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
    locations: list[Location], files: list[File], options: ColumnOptions
) -> tuple[Layout, list[tuple[str, int]]]:
    """Return the common layout of all files, and (name, row count) of each file without the label column.

    A file may lack columns other than the image; its samples then lack the fields.

    Raises:
        SourceError: The image column is missing in a file, or has another type there.
    """
    schema = files[0].schema
    for file in files:
        known = set(schema.names)
        for field in file.schema if file.schema is not schema else ():
            if field.name not in known:
                schema = schema.append(field)
    layout = find_layout(schema, options, locations[0].shown, locations[0].partitions)
    for location, file in zip(locations, files, strict=True):
        if file.schema is not schema and not file.schema.equals(schema):
            there = {*file.schema.names, *location.partitions}
            own = ColumnOptions(
                layout.image,
                layout.label if layout.label in there else None,
                layout.key if layout.key in there else None,
                [name for name in layout.columns if name in there],
            )
            other = find_layout(file.schema, own, location.shown, location.partitions)
            if other.image_in_struct != layout.image_in_struct:
                raise SourceError(
                    f"column {layout.image!r} is of another type in {location.shown} than in "
                    f"{locations[0].shown}: open them as two datasets"
                )
    lacking = [
        (location.name, int(file.rows.sum()))
        for location, file in zip(locations, files, strict=True)
        # A partition whose folder name has no value has no labels either.
        if layout.label is not None
        and layout.label not in file.schema.names
        and location.partitions.get(layout.label) is None
    ]
    for file in files:
        file.schema = None
    return layout, lacking
