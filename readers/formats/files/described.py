"""Datasets described by one indexed file, such as a manifest, whose entries name files below one folder."""

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.fingerprint import fingerprint_of
from readers.sample import (
    BadSample,
    ColumnName,
    HeaderError,
    PathLike,
    Payload,
    Sample,
    SourceError,
)
from readers.storage.blob import Content, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.index import Scan
from readers.storage.limits import check_bytes
from readers.storage.paths import UrlFolder
from readers.storage.shards import ShardDataset
from readers.storage.unreadable import (
    is_transient,
    lasting,
    oserror_as_source_error,
    size_or_missing,
)
from readers.storage.whole_files import map_whole, read_whole

_NUM_SIZES = 4096  # files whose sizes the fingerprint covers; the sizes of 10 million files on a network disk take hours
_PIECE_BYTES = 1 << 20  # bytes that are searched for line feeds at a time


class FilesBelow:
    """Reads files by their names relative to a folder, and refuses names that lead out of it. Links are followed.

    Args:
        root: The folder.
        what: What errors call the folder, such as "the folder of the manifest".
    """

    def __init__(self, root: Path | UrlFolder, what: str) -> None:
        self._prefix, self._what = f"{str(root).rstrip('/')}/", what

    def name(self, written: str) -> str:
        """Return a path, relative to the folder or absolute, as a normalised name relative to the folder.

        Raises:
            ValueError: The name leaves the folder, or no file can have it.
        """
        name = os.path.normpath(written)
        if name.startswith(self._prefix):
            name = name[len(self._prefix) :]
        if name == ".." or name.startswith(("/", "../")):
            raise ValueError(f"{_last_part(written)} lies outside {self._what}")
        if name == "." or "\0" in name:
            raise ValueError(f"{written!r} names no file")
        return name

    def read(self, written: str, *, mapped: bool = False) -> Payload:
        """Return the content of a file.

        Args:
            written: Path of the file, relative to the folder or absolute.
            mapped: Whether to map the file into memory instead of reading it.

        Raises:
            ValueError: The name leaves the folder, or the file cannot be read; the text is a short reason.
        """
        name = self.name(written)
        try:
            return (map_whole if mapped else read_whole)(self._prefix + name)
        except OSError as error:
            raise ValueError(f"the file {name} cannot be read: {error.strerror}") from None

    def sizes(self, names: Iterable[str]) -> list[int]:
        """Return the sizes of files in bytes, -1 for a file that does not exist or whose name leads out of the folder.

        Raises:
            SourceError: The storage failed, so that it is unknown whether a file exists.
        """
        return list(map(self._size, names))

    def _size(self, name: str) -> int:
        try:
            return size_or_missing(self._prefix + self.name(name))
        except ValueError:
            return -1


def _last_part(written: str) -> str:
    """Return a path for messages; of an absolute path only the last part, since the rest differs between machines."""
    return f".../{written.rpartition('/')[2]}" if written.startswith("/") else written


class DescribedFiles(IndexedDataset):
    """Base class of datasets described by one indexed file; each of its entries names a file below a folder.

    A subclass sets `_files` and turns entries into samples.

    Args:
        source: Path of the indexed file.
        scan: The scan that finds its entries.
        options: Arguments of the subclass, to open the dataset again after unpickling.

    Attributes:
        _files: Reads the files that the entries name.
    """

    _files: FilesBelow

    def __init__(self, source: PathLike, scan: Scan, options: Mapping[str, Any]) -> None:
        self._stored, self._options = ShardDataset([source], scan), dict(options)
        self._source = Path(self._stored.shards[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path and the options; the process that unpickles opens the file again."""
        return partial(type(self), **self._options), (str(self._source),)

    def __len__(self) -> int:
        return len(self._stored)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the indexed file's name and content, the sizes of up to 4096 files, and the options.

        The content is hashed by `pin_content`. If there are more than 4096 entries, the files of 4096 evenly spread ones count.
        """
        with oserror_as_source_error(str(self._source)):
            content = pin_content(open_blob(str(self._source)))
        rows = spread_evenly(len(self), _NUM_SIZES)
        # A transient read error must not enter the fingerprint, so `lasting` raises it.
        entries = lasting(self._stored.fetch(rows))
        names = [name for entry in entries if (name := self._name_of(entry)) is not None]
        sizes = repr(self._files.sizes(names))
        return fingerprint_of(self._stored.fingerprint, content, sizes, self._identity())

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` is -1, and ``height`` and ``width`` are those that the entries state."""
        if name == "num_bytes":
            return np.full(len(self), -1, np.int64)
        return self._stored.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Return the samples of entries, with the content of the files that they name; see `Dataset.fetch`."""
        return [
            entry if isinstance(entry, BadSample) else self._read_or_bad(entry)
            for entry in self._stored.fetch(indices)
        ]

    def _read_or_bad(self, entry: Sample) -> Sample | BadSample:
        try:
            return self._read(entry)
        except (ValueError, OverflowError, HeaderError, SourceError) as error:
            return BadSample(
                entry.index, entry.key, "read", str(error), transient=is_transient(error)
            )

    @abstractmethod
    def _read(self, entry: Sample) -> Sample:
        """Read the file that an entry names, and return the sample.

        Raises:
            ValueError, OverflowError, HeaderError, SourceError: The sample cannot be read; the text is a short reason.
        """

    @abstractmethod
    def _name_of(self, entry: Sample | BadSample) -> str | None:
        """Return the name of the file that an entry names, None if it names none."""

    @abstractmethod
    def _identity(self) -> bytes:
        """Return the options and class names that the fingerprint covers, as bytes."""


def spread_evenly(length: int, most: int) -> list[int]:
    """Return up to `most` evenly spread indices from 0 to length - 1, ascending, including the first and the last."""
    rows = np.linspace(0, length - 1, min(length, most)).astype(np.int64)
    return list(np.unique(rows).tolist())


def lines_of(content: Content) -> Iterator[tuple[int, int]]:
    """Yield the start and end offset of each line in bytes, without its line feed and without a byte order mark.

    Raises:
        TooLargeError: A line exceeds the limit of a sample.
    """
    offset = start = 3 if bytes(content[:3]) == b"\xef\xbb\xbf" else 0
    while offset < len(content):
        piece = bytes(content[offset : offset + _PIECE_BYTES])
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == ord("\n")) + offset
        for end in ends.tolist():
            yield start, end
            start = end + 1
        offset += len(piece)
        check_bytes(offset - start, "a line")
    if start < len(content):
        yield start, len(content)


def folder_with(
    source: Path, around: Sequence[Path], folders: Sequence[str], names: Sequence[str]
) -> Path:
    """Return the first usual folder that holds at least one of the given images.

    Args:
        source: Path of the file that names the images.
        around: Folders in which an image folder may lie.
        folders: Usual names of image folders. The folder of `source` itself is tried last.
        names: Names of some images, relative to the image folder.

    Raises:
        SourceError: No folder holds any of the images.
    """
    for folder in [*(place / name for name in folders for place in around), source.parent]:
        if max(FilesBelow(folder, "the folder").sizes(names)) >= 0:
            return folder
    others = " or one of the next images" if names[1:] else ""
    raise SourceError(
        f"none of the usual folders beside {source} holds {names[0]}{others}: name the folder with images="
    )
