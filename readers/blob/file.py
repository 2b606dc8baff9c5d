"""A file that is read at places: on this machine through a memory map, elsewhere through `readers.remote`."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from stat import S_ISREG
from typing import Protocol

from readers.blob.pages import map_file
from readers.sample import PathLike, Payload, SourceError

_CHANGED = "it has changed since it was indexed, open it anew"


class Content(Protocol):
    """The bytes of a file as a scan sees them: slices, most often from the front to the back."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice) -> Payload: ...


class Blob(Protocol):
    """A file that does not change while it is in use.

    Attributes:
        name: Last part of its path or URL.
        location: Path or URL, for people and for the helper process.
        size_bytes: Its length.
        stamp: Text that changes whenever the content does: size and time of change, or an object's ETag.
    """

    name: str
    location: str
    size_bytes: int
    stamp: str

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """Read half-open byte ranges in one go, in the order given; safe from several threads.

        Raises:
            OSError: The file is gone, has changed since it was opened, or cannot be read; its strerror says why.
        """

    def content(self) -> Content:
        """The whole file to scan through once."""


class LocalBlob:
    """A file of this machine. What `read` returns are views into its memory map, and keep it mapped.

    Args:
        path: Of a regular file.

    Raises:
        OSError: There is no such file.
    """

    __slots__ = ("_view", "location", "mode", "name", "size_bytes", "stamp")

    def __init__(self, path: PathLike) -> None:
        absolute = Path(path).absolute()
        self.location, self.name = str(absolute), absolute.name
        status = absolute.stat()
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self.location)
        self.mode = status.st_mode & 0o666
        self.size_bytes = status.st_size
        self.stamp = _stamp(status)
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        """All of it, mapped.

        Raises:
            OSError: It is gone or has changed.
        """
        if self._view is None:
            self._view = map_file(self.location, self._check)
        return self._view

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """See `Blob.read`."""
        view = self.view()
        return [view[start:stop] for start, stop in ranges]

    def content(self) -> memoryview:
        """See `Blob.content`."""
        return map_file(self.location, self._check)

    def unmapped(self) -> "LocalBlob":
        """The same file, with a map of its own when it is read."""
        other = object.__new__(LocalBlob)
        other.location, other.name, other.mode = self.location, self.name, self.mode
        other.size_bytes, other.stamp, other._view = self.size_bytes, self.stamp, None
        return other

    def _check(self, status: os.stat_result) -> None:
        if _stamp(status) != self.stamp:
            raise OSError(errno.ESTALE, _CHANGED)


def open_blob(location: PathLike) -> Blob:
    """Open a path or a URL.

    Raises:
        SourceError: There is no such file.
    """
    if is_url(location):
        from readers.remote import open_remote

        return open_remote(os.fspath(location))
    try:
        return LocalBlob(location)
    except OSError:
        raise SourceError(
            f"{Path(location).absolute()} is not a file: correct the path or the pattern"
        ) from None


def is_url(location: PathLike) -> bool:
    """Whether a place lies elsewhere: ``s3://bucket/name``, ``https://host/name``."""
    return "://" in os.fspath(location)


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}"
