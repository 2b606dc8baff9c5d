"""Samples of HDF5 files: datasets of equal length are the columns."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.detect.registry import require
from readers.fingerprint import fingerprint_of
from readers.formats.columns import (
    HDF5_IMAGE_NAMES,
    LABEL_NAMES,
    UNREADABLE,
    ColumnOptions,
    Roles,
    ambiguity_warnings,
    find_roles,
    first_of,
    to_label,
)
from readers.formats.hdf5.column import Column, ColumnCandidates
from readers.sample import (
    BadSample,
    ColumnName,
    PathLike,
    ReadersError,
    Sample,
    SourceError,
    checked_indices,
)
from readers.storage.blob import LocalBlob, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.per_process import PerProcess
from readers.storage.unreadable import is_transient, oserror_as_source_error, reason_of

Rows = Sequence[Any] | NDArray[Any]
_LABELS_AT_ONCE = 1 << 16  # rows whose labels are read in one call, to limit memory
# Exceptions that h5py raises for damaged files.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError, OverflowError)


class Hdf5Dataset(IndexedDataset):
    """Samples of an HDF5 file: the columns are the dataset of images and all datasets with as many rows.

    The name of a dataset includes its groups: ``train/images``. Images are either encoded files (rows of bytes
    of variable length, opaque rows, or text), whose field has the name of the dataset, or pixels, uint8
    [N, H, W, 3] or [N, H, W], which become the field ``ppm`` or ``pgm``. In the other datasets, numbers and
    lists of numbers become JSON, text becomes UTF-8, bytes stay unchanged, and rows of two or more dimensions
    become ``.npy`` files.

    Contiguous uncompressed datasets, and bytes of variable length, are read through a memory map; all others are
    read by h5py, which serves one thread at a time. No program may write to the file while
    it is in use; rows that it loses because it is shortened in place become BadSamples. Links to other files, and
    datasets stored in other files, are refused if the caller names them, and otherwise ignored.

    Args:
        file: Path of the HDF5 file.
        image: Name of the dataset of images or encoded videos; if None, the first usual name that exists.
        label: Name of the dataset of class numbers; if None, the first usual name that exists.
        key: Name of the dataset of keys; if None, the first usual name that exists, or else the row's index.
        columns: Names of the datasets that become fields; None for all with as many rows as the images.

    Raises:
        SourceError: The file is missing, truncated or not HDF5; there is no dataset of images, or it is empty;
            a named dataset is missing, or has another length or an unsupported type; or a dataset with a usual name of
            labels has an unsupported type, and neither label nor columns name another one.
    """

    def __init__(
        self,
        file: PathLike,
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        options = ColumnOptions(image, label, key, columns)
        self._path = Path(file).absolute()
        self._h5py = require("h5py", extra="hdf5")
        if not self._path.is_file():
            raise SourceError(f"{self._path} is not a file: give an HDF5 file")
        with _damage(self._path):
            self._stamp = LocalBlob(self._path).stamp
            with self._h5py.File(self._path, "r") as opened:
                candidates = ColumnCandidates(self._h5py, opened)
                for name in (image, label, key, *(options.columns or ())):
                    if name is not None:
                        candidates.check(name, self._path)
                self._roles, self._fields = _choose(candidates, options, self._path)
                assert self._roles.image is not None
                self._length = candidates.lengths[self._roles.image]
                self._remarks = ambiguity_warnings(
                    str(self._path),
                    options,
                    self._roles,
                    encoded=(),
                    integers=[
                        name
                        for name in candidates.integers
                        if candidates.lengths[name] == self._length
                    ],
                )
                if self._roles.label is None:
                    self._remarks += self._other_labels(candidates)
                pixels = Column(self._h5py, opened[self._roles.image], self._path)
        if not pixels.is_encoded and (pixels.file is None or pixels.file.size is None):
            raise SourceError(
                f"{self._path}: the rows of {self._roles.image} are no images: they must be encoded files, or "
                "uint8 [N, height, width, 3] or [N, height, width]; name the right dataset with image="
            )
        if self._roles.label is None:
            self.unlabelled = self._length, self._fields, ""
        names = dict.fromkeys((*self._fields, self._roles.label, self._roles.key))
        self._columns_read = [name for name in names if name is not None]
        self._pixels = pixels.file
        self._num_chunk_rows = pixels.num_chunk_rows
        # Each process opens the file: HDF5's state in memory must not be shared by a fork.
        self._file = PerProcess(
            partial(_open, self._h5py, self._path, self._stamp, self._columns_read)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options; the process that unpickles opens the file again."""
        options: dict[str, Any] = {**asdict(self._roles), "columns": self._fields}
        return partial(type(self), **options), (self._path,)

    def __len__(self) -> int:
        return self._length

    def _other_labels(self, candidates: ColumnCandidates) -> tuple[str, ...]:
        """Return warnings about label datasets that are ignored because they have another number of rows than the images."""
        return tuple(
            f"{self._path}: {name} has {candidates.lengths[name]} rows and {self._roles.image} has {self._length}, so it is not taken "
            "for the labels, and there are none: write a label for each image"
            for name in candidates.integers
            if name in LABEL_NAMES and candidates.lengths[name] != self._length
        )

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the file's name, its content (by `pin_content`) and the names of the datasets that are read."""
        image, label, key = self._roles.image, self._roles.label, self._roles.key
        roles = f"Roles({image=}, {label=}, {key=})"  # part of stored fingerprints: must not change if the class is renamed
        with oserror_as_source_error(str(self._path)):
            content = pin_content(open_blob(self._path))
        return fingerprint_of(f"{self._path.name!r} {roles} {self._fields}\n", content)

    @property
    def block_size(self) -> int:
        """Number of rows in a chunk of the images; if chunks hold one row, the default of all datasets."""
        return self._num_chunk_rows if self._num_chunk_rows > 1 else super().block_size

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``height`` and ``width`` are known for images stored as pixels, and ``num_bytes`` is -1.

        Raises:
            SourceError: The file was removed or has changed, or a label cannot be read.
        """
        label = self._roles.label
        if name != "label" or label is None:
            height, width = (self._pixels and self._pixels.size) or (0, 0)
            same = {"label": -1, "height": height, "width": width, "num_bytes": -1}
            return np.full(self._length, same[name], np.int64)
        labels = np.full(self._length, -1, np.int64)
        for start in range(0, self._length, _LABELS_AT_ONCE):
            stop = min(start + _LABELS_AT_ONCE, self._length)
            opened = self._file.get()
            with opened.lock, suppress(*_DAMAGE):
                numbers = opened.columns[label].labels(start, stop)
                if numbers is not None:
                    labels[start:stop] = numbers
                    continue
            rows = np.arange(start, stop)
            columns, values = self._read((label,), rows)
            for row, value in zip(rows.tolist(), values[label], strict=True):
                try:
                    labels[row] = to_label(columns[label].label(_checked(value)))
                except (ValueError, OSError):
                    labels[row] = UNREADABLE
        return self._readable(labels)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return samples; rows are read in stored order. See `Dataset.fetch`."""
        wanted = np.asarray(checked_indices(indices, self._length), np.int64)
        rows, inverse = np.unique(wanted, return_inverse=True)
        try:
            columns, values = self._read(self._columns_read, rows)
        except SourceError as error:
            transient = is_transient(error)
            return [
                BadSample(row, f"{self._path.name}/{row}", "read", str(error), transient=transient)
                for row in wanted.tolist()
            ]
        entries = [
            self._sample(row, columns, {name: values[name][number] for name in values})
            for number, row in enumerate(rows.tolist())
        ]
        return [entries[number] for number in inverse.tolist()]

    def _sample(
        self, row: int, columns: Mapping[str, Column], values: Mapping[str, Any]
    ) -> Sample | BadSample:
        roles, image_field = self._roles, self._roles.image
        key = str(row)
        try:
            if roles.key is not None:
                key = str(columns[roles.key].plain(_checked(values[roles.key])))
            label = -1
            if roles.label is not None:
                label = to_label(columns[roles.label].label(_checked(values[roles.label])))
            fields = {name: columns[name].payload(_checked(values[name])) for name in self._fields}
        except OSError as error:
            reason = f"the file is damaged there: {reason_of(error)}"
            return BadSample(
                row, f"{self._path.name}/{key}", "read", reason, transient=is_transient(error)
            )
        except ValueError as error:
            return BadSample(row, f"{self._path.name}/{key}", "read", str(error))
        if self._pixels is not None and image_field is not None:
            image = {self._pixels.field: fields.pop(image_field)}
            fields, image_field = {**image, **fields}, self._pixels.field
        size = self._pixels.size if self._pixels else None
        return Sample(row, f"{self._path.name}/{key}", fields, label, size, None, image_field)

    def _read(
        self, names: Sequence[str], rows: NDArray[np.int64]
    ) -> tuple[Mapping[str, Column], dict[str, Rows]]:
        """Return the columns, and the values of rows of some datasets by name; a damaged row has an OSError as value.

        Raises:
            SourceError: The file cannot be opened; see `_open`.
        """
        opened = self._file.get()
        with opened.lock:
            return opened.columns, {name: _read_all(opened.columns[name], rows) for name in names}


class _OpenFile:
    """The open HDF5 file of one process, its columns, and the lock that calls of h5py need."""

    def __init__(self, h5py: ModuleType, path: Path, names: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self.file = h5py.File(path, "r")
        self.columns = {name: Column(h5py, self.file[name], path) for name in names}


def _open(h5py: ModuleType, path: Path, stamp: str, names: Sequence[str]) -> _OpenFile:
    """Open the file in this process.

    Args:
        h5py: The module h5py.
        path: Path of the file.
        stamp: Stamp of the file when the dataset was opened.
        names: Names of the datasets to read.

    Raises:
        SourceError: The file is missing, has another stamp, or cannot be opened.
    """
    with _damage(path):
        if not path.is_file() or LocalBlob(path).stamp != stamp:
            raise SourceError("the file is gone or has changed since it was opened, open it anew")
        return _OpenFile(h5py, path, names)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Turn exceptions that h5py raises in the with block into a SourceError that names the file."""
    try:
        yield
    except ReadersError:
        raise
    except Exception as error:  # noqa: BLE001, RuntimeError and KeyError among others
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise SourceError(
            f"{path} is cut off or no HDF5 file ({reason}): write it again, or correct the path"
        ) from None


def _choose(
    candidates: ColumnCandidates, options: ColumnOptions, path: Path
) -> tuple[Roles, tuple[str, ...]]:
    """Return the names of the datasets for the roles, and of those that become fields."""
    filled = [name for name, length in candidates.lengths.items() if length]
    image = options.image or first_of(HDF5_IMAGE_NAMES, filled)
    if image is None or not candidates.lengths[image]:
        have = ", ".join(candidates.lengths) or "none"
        name = first_of(HDF5_IMAGE_NAMES, candidates.refused)
        if name is not None:
            raise SourceError(f"{path}: {name} {candidates.refused[name]}")
        raise SourceError(
            f"{path} has no dataset of images or videos with any rows (its datasets are {have}): name it with image="
        )
    length = candidates.lengths[image]
    for name in (options.label, options.key, *(options.columns or ())):
        if name is not None and candidates.lengths[name] != length:
            raise SourceError(
                f"{path}: {name} has {candidates.lengths[name]} rows and {image} has {length}: name datasets of "
                "equal length"
            )
    there = [name for name, rows in candidates.lengths.items() if rows == length]
    integers = candidates.integers.intersection(there)
    roles = find_roles(replace(options, image=image), (), there, integers=integers)
    bad = first_of(LABEL_NAMES, candidates.refused)
    if bad is not None and roles.label is None and options.columns is None:
        raise SourceError(
            f"{path}: {bad} {candidates.refused[bad]}, or name the datasets to read with columns="
        )
    return roles, tuple(name for name in there if options.takes(name) or name == image)


def _read_all(column: Column, rows: NDArray[np.int64]) -> Rows:
    try:
        return column.read(rows)
    except _DAMAGE:
        return [_read_one(column, row) for row in rows.tolist()]


def _read_one(column: Column, row: int) -> Any:
    try:
        return column.read(np.array([row]))[0]
    except _DAMAGE as error:
        return error if isinstance(error, OSError) else OSError(str(error))


def _checked(value: Any) -> Any:
    """Return a value; if it is the OSError of a damaged row, raise it."""
    if isinstance(value, OSError):
        raise value
    return value
