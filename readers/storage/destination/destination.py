"""The interface of destinations, folders or prefixes of object stores to which prepared data is written."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from readers.sample import PathLike
from readers.storage.blob import is_url
from readers.storage.destination.local import LocalDestination
from readers.storage.destination.remote import RemoteDestination
from readers.storage.remote import StorageOptions


class Destination(Protocol):
    """A folder, or a prefix of an object store, to which files are written; they appear when they are complete. Picklable.

    Attributes:
        location: Path of the folder, or URL of the prefix, without a slash at its end.
    """

    location: str

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for writing that appears at the end of the with block, unless the block raises an error.

        An existing file of that name is replaced. If there are several writers of one name, possibly on several machines, the
        last one to end wins.

        Args:
            name: Path of the file, relative to the location.

        Raises:
            PrepareError: The file cannot be written; an existing file of that name is left unchanged.
        """

    def read(self, name: str) -> bytes | None:
        """Return all bytes of a small file; None if it does not exist.

        Raises:
            PrepareError: The file cannot be read.
        """

    def size_bytes(self, name: str) -> int | None:
        """Return the size of a file; None if it does not exist.

        Raises:
            PrepareError: The size of the file cannot be read.
        """

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of all complete files in a folder and below it, relative to the location, in any order.

        Raises:
            PrepareError: The files cannot be listed.
        """

    def remove(self, name: str) -> None:
        """Remove a file if it exists.

        Raises:
            PrepareError: The file cannot be removed.
        """

    def at(self, name: str) -> str:
        """Return the path or URL of a file for `readers.open_dataset`; a URL carries the options of its connection."""


def open_destination(location: PathLike, storage: StorageOptions | None = None) -> Destination:
    """Return the destination at a path or URL; a folder is created when the first file is written.

    Args:
        location: Path of a folder, or ``s3://bucket/prefix``, ``gs://...``, ``az://...``.
        storage: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        PrepareError: `location` is a file, or a URL that cannot be written to.

    Example:
        >>> from readers.storage.destination import open_destination
        >>> place = open_destination("notes")
        >>> with place.create("note.txt") as file:
        ...     file.write(b"whole")
        5
        >>> place.read("note.txt"), list(place.names())
        (b'whole', ['note.txt'])
    """
    text = os.fspath(location)
    return RemoteDestination(text, storage) if is_url(text) else LocalDestination(text)
