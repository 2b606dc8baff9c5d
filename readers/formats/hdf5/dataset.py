"""Datasets of equal length in an HDF5 file, as the columns of samples."""

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
_LABELS_AT_ONCE = 1 << 16  # so that labels of any number of rows need little memory
# What h5py raises at damage.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, IndexError, OverflowError)


class Hdf5Dataset(IndexedDataset):
    """The rows of the datasets in an HDF5 file that are as long as the one of the images.

    A dataset in groups has their names in front: ``train/images``. Images are encoded files (rows of bytes
    of variable length, opaque rows, or text) under the name of their dataset, or pixels, uint8
    [N, H, W, 3] or [N, H, W], which become the field ``ppm`` or ``pgm``. Of the other datasets numbers and
    lists of numbers become JSON, text UTF-8, bytes stay as they are, and rows of two dimensions or more
    become ``.npy`` files.

    Datasets that are stored in one piece without compression, and bytes of variable length, are read where they
    lie in the file, all others by h5py, which serves one thread at a time. Nothing may write into the file while
    it is in use; rows that it lost because it was shortened in place are BadSamples. Only what lies in
    the file itself is read: links to other files and storage in other files are refused if the caller
    names them, and else passed over.

    Args:
        file: The HDF5 file.
        image: Dataset of the images, or of encoded videos; None takes the first of the usual names.
        label: Dataset of the class numbers; None takes the first of the usual names.
        key: Dataset that names the samples; None takes the first of the usual names, else the numbers of rows.
        columns: Which datasets become fields, None for all that are as long as the images.

    Raises:
        SourceError: The file is missing, no HDF5 or cut off; there is no dataset of images, or it is empty;
            a dataset is missing, has another length, or a type of which no samples are made; or a dataset with a usual name
            of labels has such a type, and neither label nor columns name another one.
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
        # HDF5 keeps its state in memory that a fork copies.
        self._file = PerProcess(
            partial(_open, self._h5py, self._path, self._stamp, self._columns_read)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file itself."""
        options: dict[str, Any] = {**asdict(self._roles), "columns": self._fields}
        return partial(type(self), **options), (self._path,)

    def __len__(self) -> int:
        return self._length

    def _other_labels(self, candidates: ColumnCandidates) -> tuple[str, ...]:
        """Return warnings about datasets of labels whose number of rows is not that of the images."""
        return tuple(
            f"{self._path}: {name} has {candidates.lengths[name]} rows and {self._roles.image} has {self._length}, so it is not taken "
            "for the labels, and there are none: write a label for each image"
            for name in candidates.integers
            if name in LABEL_NAMES and candidates.lengths[name] != self._length
        )

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the file's name and content, and which datasets are read; see `pin_content`."""
        image, label, key = self._roles.image, self._roles.label, self._roles.key
        roles = (
            f"Roles({image=}, {label=}, {key=})"  # these words stay, whatever the class is called
        )
        with oserror_as_source_error(str(self._path)):
            content = pin_content(open_blob(self._path))
        return fingerprint_of(f"{self._path.name!r} {roles} {self._fields}\n", content)

    @property
    def block_size(self) -> int:
        """Rows in a chunk of the images."""
        return self._num_chunk_rows if self._num_chunk_rows > 1 else super().block_size

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; only labels are known.

        Raises:
            SourceError: The file is gone or has changed, or a label cannot be read.
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
        """Read the rows in the order in which they are stored; see `Dataset.fetch`."""
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
        """Read rows of some datasets; an OSError stands for a row that is damaged.

        Raises:
            SourceError: See `_open`.
        """
        opened = self._file.get()
        with opened.lock:
            return opened.columns, {name: _read_all(opened.columns[name], rows) for name in names}


class _OpenFile:
    """A file in use by one process."""

    def __init__(self, h5py: ModuleType, path: Path, names: Sequence[str]) -> None:
        self.lock = threading.Lock()
        self.file = h5py.File(path, "r")
        self.columns = {name: Column(h5py, self.file[name], path) for name in names}


def _open(h5py: ModuleType, path: Path, stamp: str, names: Sequence[str]) -> _OpenFile:
    """Open a file again.

    Raises:
        SourceError: The file is missing, has changed since it had the stamp, or is damaged as a whole.
    """
    with _damage(path):
        if not path.is_file() or LocalBlob(path).stamp != stamp:
            raise SourceError("the file is gone or has changed since it was opened, open it anew")
        return _OpenFile(h5py, path, names)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Raise a SourceError for whatever h5py raises at damage in a file."""
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
    """Return the datasets by role, and those that become fields."""
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
    """Return a value, or raise the OSError that stands for it."""
    if isinstance(value, OSError):
        raise value
    return value
