"""Where prepared data goes: a folder, or a prefix of an object store."""

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
    """A place for files, which appear whole or not at all. It can be pickled.

    Attributes:
        location: Path of a folder, or URL of a prefix, without a slash at its end.
    """

    location: str

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Write a file, which is there when the block ends, and not at all when it raises; another one is replaced.

        Of several writers of one name, on whatever machines, the last one to end wins, whole.

        Args:
            name: Relative to the location; it may hold slashes.

        Raises:
            PrepareError: It cannot be written; what was there before still is.
        """

    def read(self, name: str) -> bytes | None:
        """All bytes of a small file, None where there is none.

        Raises:
            PrepareError: It cannot be read.
        """

    def size_bytes(self, name: str) -> int | None:
        """Its size, None where there is no such file.

        Raises:
            PrepareError: It cannot be looked at.
        """

    def names(self, folder: str = "") -> Iterator[str]:
        """The names of all finished files in a folder and below it, in no certain order, never all at a time.

        Raises:
            PrepareError: The files cannot be listed.
        """

    def remove(self, name: str) -> None:
        """Remove a file; nothing where there is none.

        Raises:
            PrepareError: It cannot be removed.
        """

    def at(self, name: str) -> str:
        """Path or URL of a file, for `readers.open_dataset`; a URL remembers how to reach it."""


def open_destination(location: PathLike, storage: StorageOptions | None = None) -> Destination:
    """Name a place for files. Folders are made when the first file is written.

    Args:
        location: Path of a folder, or ``s3://bucket/prefix``, ``gs://...``, ``az://...``.
        storage: How a store is reached; by default what a `Url` remembers, else what `configure` set.

    Raises:
        PrepareError: It is a file, or of a kind that cannot be written.

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
