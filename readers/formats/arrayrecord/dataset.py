"""Datasets of ArrayRecord files, with random access through the package array_record."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.parts import PartsDataset, samples_in_block
from readers.fingerprint import fingerprint_of
from readers.formats.arrayrecord.files import OpenFiles
from readers.formats.columns import UNREADABLE
from readers.formats.protobuf.example import ExampleReader, decode_fields
from readers.formats.tables.layout import unknown_column
from readers.image.header import image_size
from readers.sample import BadSample, ColumnName, PathLike, Payload, Sample, SourceError
from readers.storage.blob import is_url, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.unreadable import is_transient

_MAX_FIRST_RECORDS = 16  # read to find the kind of the records; if all of these are damaged, the file counts as damaged


class ArrayRecordDataset(PartsDataset):
    """Records of ArrayRecord files.

    If the first readable record is a tf.train.Example, all records are read as Examples, and their features become
    fields as in `TfRecordDataset`. Otherwise each record becomes one field ``record``, without label and key; it is the
    sample's image if its header is one of an image.

    A batch is read with one call for each file, and record by record if that call fails, so that a damaged
    chunk loses only its own records. The files have no index of labels: `column` reads all Examples once.

    Args:
        shards: Paths of the files. The samples follow this order.
        image: Name of the feature that holds the encoded image; if None, the first usual name that exists.
        label: Name of the feature that holds the class number; if None, the first usual name that exists.
        key: Name of the feature that holds the key; if None, the first usual name that exists, or else the record's
            index in its file.
        columns: Names of the features that become fields; None for all.

    Raises:
        SourceError: A file is missing, empty, truncated or not an ArrayRecord file; a feature that an argument names does not
            exist; or the package array_record is not installed.
    """

    def __init__(
        self,
        shards: Sequence[PathLike],
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        self._paths = _check_paths(shards)
        self._names = [Path(path).name for path in self._paths]
        self._reader = ExampleReader(image, label, key, columns)
        self._files = OpenFiles(self._paths)
        counts = [
            _count_records(self._files, number, path) for number, path in enumerate(self._paths)
        ]
        self._starts = np.cumsum([0, *counts])
        self._has_examples = self._look()
        if not self._has_examples:
            self.unlabelled = len(self), (), ""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the paths and the options; the process that unpickles opens the files again."""
        return partial(type(self), **asdict(self._reader)), (self._paths,)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' names, record counts, sizes and parts of their content.

        See `readers.storage.blob.content_hash` for the parts.
        """
        files = zip(self._names, self._paths, self._starts[1:].tolist(), strict=True)
        return fingerprint_of(
            *(f"{name!r} {stop} {pin_content(open_blob(path))}\n" for name, path, stop in files)
        )

    @property
    def block_size(self) -> int:
        """Number of records in about 8 MB of a file."""
        return samples_in_block(len(self), sum(Path(path).stat().st_size for path in self._paths))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column. Only ``label`` has known values, and its first call reads all records."""
        if name == "label":
            return self._readable(self._labels.copy())
        return unknown_column(name, len(self))

    def verify(self) -> Iterator[BadSample]:
        """Read all records, and compare the checksum of every chunk.

        Yields:
            A `BadSample` for each record that cannot be read.
        """
        yield from self._bad_samples(0, len(self))

    def _fetch_part(self, number: int, indices: NDArray[np.int64]) -> Iterator[Sample | BadSample]:
        start = int(self._starts[number])
        rows = list(dict.fromkeys((indices - start).tolist()))
        records = dict(zip(rows, self._read(number, rows), strict=True))
        for index in indices.tolist():
            yield self._sample(index, self._names[number], index - start, records[index - start])

    @cached_property
    def _labels(self) -> NDArray[np.int64]:
        labels = np.full(len(self), -1, np.int64)
        if not self._has_examples:
            return labels
        step = self.block_size
        for number, (start, stop) in enumerate(pairwise(self._starts.tolist())):
            for first in range(start, stop, step):
                rows = range(first - start, min(first + step, stop) - start)
                records = self._read(number, [*rows])
                labels[first : first + len(rows)] = [self._label(record) for record in records]
        return labels

    def _label(self, record: bytes | Exception) -> int:
        try:
            return UNREADABLE if isinstance(record, Exception) else self._reader.read(record).label
        except ValueError:
            return UNREADABLE

    def _look(self) -> bool:
        """Return whether the first readable record is a tf.train.Example."""
        for row in range(min(_MAX_FIRST_RECORDS, self._starts[1])):
            (record,) = self._read(0, [row])
            if isinstance(record, bytes):
                return self._reader.accepts(record, self._paths[0])
        raise SourceError(
            f"{self._paths[0]} has no record among its first {_MAX_FIRST_RECORDS} that can be read: "
            "it is damaged, copy it again"
        )

    def _read(self, number: int, rows: list[int]) -> "Sequence[bytes | Exception]":
        """Return records of a file; in place of a record that cannot be read, return its exception."""
        try:
            return self._files.read(number, rows)
        except (RuntimeError, OSError) as error:
            if len(rows) == 1:
                return [error]
            return [record for row in rows for record in self._read(number, [row])]

    def _sample(
        self, index: int, name: str, row: int, record: bytes | Exception
    ) -> Sample | BadSample:
        if isinstance(record, Exception):
            reason = f"the record cannot be read: {str(record).partition(';')[0][:200]}"
            return BadSample(index, f"{name}/{row}", "read", reason, transient=is_transient(record))
        if not self._has_examples:
            return _plain_record(index, f"{name}/{row}", record)
        try:
            example = self._reader.read(record)
            view = memoryview(record)
            fields = decode_fields(
                {field: view[start:stop] for field, start, stop in example.members}
            )
        except ValueError as error:
            reason = f"its tf.train.Example cannot be read: {error}"
            return BadSample(index, f"{name}/{row}", "read", reason)
        key = f"{name}/{row if example.key is None else example.key}"
        return Sample(index, key, fields, example.label, image_field=example.image)


def _check_paths(shards: Sequence[PathLike]) -> list[str]:
    if not shards:
        raise SourceError("the list of shards is empty: give at least one")
    remote = [os.fspath(shard) for shard in shards if is_url(shard)]
    if remote:
        raise SourceError(
            f"{remote[0]} cannot be read at random by array_record: copy the file to this machine"
        )
    missing = [shard for shard in shards if not Path(shard).is_file()]
    if missing:
        raise SourceError(
            f"{Path(missing[0]).absolute()} is not a file ({len(missing)} of {len(shards)} shards are "
            "missing): correct the pattern or the list"
        )
    return [str(Path(shard).absolute()) for shard in shards]


def _count_records(files: OpenFiles, number: int, path: str) -> int:
    count = files.count(number)
    if count:
        return count
    if not Path(path).stat().st_size:
        raise SourceError(f"{path} is empty (0 bytes): write the file again")
    if files.is_sound(number):
        raise SourceError(f"{path} holds no records: leave it out")
    reason = "its end is missing"
    try:
        files.read(number, [0])
    except (RuntimeError, OSError) as error:
        reason = str(error).partition(";")[0].partition(" (computed")[0][:200]
    raise SourceError(
        f"{path} is no ArrayRecord file, or is cut off ({reason}): correct the path or copy it again"
    )


def _plain_record(index: int, key: str, record: Payload) -> Sample:
    size = image_size(record)
    image_field = None if size is None else "record"
    return Sample(index, key, {"record": record}, size=size, image_field=image_field)
