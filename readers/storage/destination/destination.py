"""Define the interface of destinations to which prepared data is written, and write to a local or network folder."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from readers.sample import PathLike, PrepareError, TransientError
from readers.storage.atomic_file import OWN, SUFFIX, ForeignError, atomic_file, foreign_errors
from readers.storage.blob import is_url
from readers.storage.destination.output import Output
from readers.storage.destination.remote import RemoteDestination
from readers.storage.remote import StorageOptions

T = TypeVar("T")

_MENDS = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.ENOENT: "give a folder that can be written",  # under /proc, say
    errno.EROFS: "give a folder that can be written",
    errno.EACCES: "give a folder that can be written",
    errno.EPERM: "give a folder that can be written",
    errno.ENOTDIR: "give the path of a folder",
    errno.EEXIST: "give the path of a folder",
    errno.EISDIR: "remove the folder of that name",
}
"""Advice for the user, for each error number."""
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
"""Error numbers that mean that a file does not exist."""


class LocalDestination:
    """A folder as a `Destination`.

    Args:
        location: Path of the folder, which may not exist yet.

    Raises:
        PrepareError: `location` is a file.
    """

    def __init__(self, location: str) -> None:
        self._folder = Path(location)
        self.location = str(self._folder)
        if self._folder.exists() and not self._folder.is_dir():
            raise PrepareError(f"{location} is a file: give the path of a folder")

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        path = self._folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Errors that the caller's block raises, such as for a file that it reads, do not concern this path.
            with atomic_file(path, to_disk=True) as file, foreign_errors():
                yield Output(file, partial(_unwritten, self._folder, path))
        except ForeignError as foreign:
            raise foreign.error from None
        except OSError as error:
            raise _unwritten(self._folder, path, error) from None

    def read(self, name: str) -> bytes | None:
        return self._act(name, Path.read_bytes)

    def size_bytes(self, name: str) -> int | None:
        return self._act(name, lambda path: path.stat().st_size)

    def names(self, folder: str = "") -> Iterator[str]:
        try:
            with os.scandir(self._folder / folder) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir():
                        yield from self.names(name)
                    elif not (entry.name.startswith(OWN) and entry.name.endswith(SUFFIX)):
                        yield name
        except OSError as error:
            if error.errno not in _ABSENT:
                raise self._failure(folder, error, "read") from None

    def remove(self, name: str) -> None:
        self._act(name, Path.unlink, "removed")

    def at(self, name: str) -> str:
        return str(self._folder / name)

    def _act(self, name: str, action: Callable[[Path], T], done: str = "read") -> T | None:
        """Return the result of an action on a file; None if the file does not exist.

        Args:
            name: Path of the file, relative to the location.
            action: Function of the absolute path.
            done: Participle of the action, for the error.
        """
        try:
            return action(self._folder / name)
        except OSError as error:
            if error.errno in _ABSENT:
                return None
            raise self._failure(name, error, done) from None

    def _failure(self, name: str, error: OSError, done: str) -> TransientError:
        return TransientError(
            f"{self._folder / name} cannot be {done} ({error.strerror}): mend it and run the same command again"
        )


def whole(folder: str) -> str:
    """Return a part of an error text which says that the files in a folder are complete; "" if it has no files."""
    with suppress(PrepareError):  # the words only complete another error
        if next(LocalDestination(folder).names(), None) is not None:
            return "what is there is whole, so "
    return ""


def _unwritten(folder: Path, path: Path, error: Exception) -> Exception:
    if not isinstance(error, OSError):
        return error
    mend = _MENDS.get(error.errno or 0, "mend it")
    return TransientError(
        f"{path} cannot be written ({error.strerror}): {whole(str(folder))}{mend} and run the same command again"
    )


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
