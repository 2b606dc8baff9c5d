"""The interface of a folder or a prefix of an object store that takes prepared data."""

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
    """A folder or prefix for files, which appear when they are complete. It can be pickled.

    Attributes:
        location: Path of the folder, or URL of the prefix, without a slash at its end.
    """

    location: str

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that appears at the end of the block, unless the block raises; it replaces a file of that name.

        Of several writers of one name, also on several machines, the last one to end wins.

        Args:
            name: Path relative to the location.

        Raises:
            PrepareError: It cannot be written; an earlier file of that name remains.
        """

    def read(self, name: str) -> bytes | None:
        """Return all bytes of a small file, None if it does not exist.

        Raises:
            PrepareError: It cannot be read.
        """

    def size_bytes(self, name: str) -> int | None:
        """Return the size of a file, None if it does not exist.

        Raises:
            PrepareError: Its size cannot be read.
        """

    def names(self, folder: str = "") -> Iterator[str]:
        """Yield the names of all complete files in a folder and below it, one by one, in any order.

        Raises:
            PrepareError: The files cannot be listed.
        """

    def remove(self, name: str) -> None:
        """Remove a file if it exists.

        Raises:
            PrepareError: It cannot be removed.
        """

    def at(self, name: str) -> str:
        """Return the path or URL of a file for `readers.open_dataset`; a URL carries the options of its connection."""


def open_destination(location: PathLike, storage: StorageOptions | None = None) -> Destination:
    """Return the destination at a path or URL. Folders are created when the first file is written.

    Args:
        location: Path of a folder, or ``s3://bucket/prefix``, ``gs://...``, ``az://...``.
        storage: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        PrepareError: It is a file, or a URL that cannot be written.

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
