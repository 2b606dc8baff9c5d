"""Open files that are read in parts: local files here, remote ones through `readers.storage.remote`."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from readers.sample import PathLike, Payload, SourceError
from readers.storage.blob.blob import Blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.blob.mapped import mapped_file
from readers.storage.blob.mmap_pages import map_file
from readers.storage.unreadable import is_transient, reason_of

_CHANGED = "it has changed since it was indexed: open it again"
"""Text of an ESTALE error, which becomes the reason of bad samples."""


class FileState(NamedTuple):
    """The state of a local file, to detect changes: two states are equal if the file is unchanged.

    Attributes:
        size_bytes: Size of the file.
        mtime_ns: Time of the last change of the content; programs can set it.
        ctime_ns: Time of the last change of content, name, permissions or times; programs cannot set it.
        inode: Inode number, which differs if another file was put at the path.
    """

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class LocalBlob:
    """A local file as a `Blob`; `read` returns copies, but views of parts longer than `mapped.copied_bytes`.

    The file is mapped into memory when it is first read. It must then have the size and mtime that it had when it was opened,
    else reading fails. If only ctime or inode differ (the file was renamed, got other permissions, or was replaced by one of
    equal mtime), its content is compared with `pin`, if that is set.

    Attributes:
        pin: The `pin_content` of the file; empty if unknown.

    Args:
        path: Path of a regular file.

    Raises:
        OSError: The file does not exist, or is not a regular file.
    """

    __slots__ = ("_view", "location", "mode", "name", "pin", "size_bytes", "stamp", "state")

    def __init__(self, path: PathLike) -> None:
        absolute = Path(path).absolute()
        self.location, self.name = str(absolute), absolute.name
        status = absolute.stat()
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self.location)
        self.mode = status.st_mode & 0o666
        self.size_bytes = status.st_size
        self.state = _state(status)
        self.stamp = "-".join(map(str, self.state))
        self.pin = ""
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        """Return a view of the mapped file, which stays mapped.

        Accessing it after the file has shrunk kills the process: see `readers.storage.blob.mapped`.

        Raises:
            OSError: The file no longer exists, or has changed since it was opened.
        """
        if self._view is None:
            self._view = self.content()
        return self._view

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        file = mapped_file(self.view())
        return [file.payload(start, stop) if file else b"" for start, stop in ranges]

    def content(self) -> memoryview:
        found: list[FileState] = []

        def check(status: os.stat_result) -> None:
            found.append(_state(status))
            if found[0][:2] != self.state[:2]:
                raise OSError(errno.ESTALE, _CHANGED)

        view = map_file(self.location, check)
        if found[0] != self.state and self.pin and pin_content(self._mapped_as(view)) != self.pin:
            raise OSError(errno.ESTALE, _CHANGED)
        return view

    def unmapped(self) -> "LocalBlob":
        """Return another `LocalBlob` of this file, which makes its own mapping when it is read."""
        return self._mapped_as(None)

    def _mapped_as(self, view: memoryview | None) -> "LocalBlob":
        other = object.__new__(LocalBlob)
        other.location, other.name, other.mode = self.location, self.name, self.mode
        other.size_bytes, other.stamp, other.state = self.size_bytes, self.stamp, self.state
        other.pin, other._view = self.pin, view
        return other


def open_blob(location: PathLike) -> Blob:
    """Open the file at a path or a URL, and return it.

    Raises:
        SourceError: The file does not exist, or cannot be opened.
    """
    if is_url(location):
        from readers.storage.remote import open_remote

        return open_remote(os.fspath(location))
    try:
        return LocalBlob(location)
    except OSError as error:
        path = Path(location).absolute()
        if is_transient(error):
            raise SourceError(f"{path} cannot be read: {reason_of(error)}") from None
        raise SourceError(f"{path} is not a file: correct the path or the pattern") from None


def is_url(location: PathLike) -> bool:
    """Return whether a location is a URL, such as ``s3://bucket/name``: it contains ``://``."""
    return "://" in os.fspath(location)


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
