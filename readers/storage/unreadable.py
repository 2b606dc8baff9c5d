"""Errors of reading: their texts, and whether they may go away."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from platform import node
from typing import TypeVar

from readers.sample import BadSample, SourceError, TransientError

_Entry = TypeVar("_Entry")

PAUSES_SECONDS = (0.1, 0.3)
"""Waits before retries of a read that a disk or a network file system failed: a fail-over of NFS, a lease that is renewed."""
# Errors that depend on the data alone and come back each time.
_OF_THE_DATA = {
    None,  # raised by a parser
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENXIO,  # a socket, a pipe
    errno.EINVAL,
    errno.EFBIG,
}


@contextmanager
def oserror_as_source_error(location: str) -> Iterator[None]:
    """Raise OSErrors of the block as SourceError: no permission, a server that fails, an object that changed.

    Args:
        location: The path or URL, for the error.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"{_shown(location)} cannot be read: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return the reason of an error without local paths."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def is_transient(error: BaseException | None) -> bool:
    """Return whether an error comes from the storage and may go away: a disk, a network, a server, a missing permission.

    A file that does not exist, or is no regular file, is an error of the data. An error that is no OSError counts as the one
    that caused it, unless it was pickled.
    """
    found = _oserror_of(error)
    return found is not None and found.errno not in _OF_THE_DATA


def is_missing(error: BaseException) -> bool:
    """Return whether an error means that a file or object does not exist."""
    return has_errno(error, errno.ENOENT, errno.ENOTDIR)


def has_errno(error: BaseException, *numbers: int) -> bool:
    """Return whether an error is, or was caused by, an OSError with one of these numbers."""
    found = _oserror_of(error)
    return found is not None and found.errno in numbers


def require_read(bad: BadSample) -> None:
    """Refuse a bad sample that may be sound; call it before a result for the sample is stored in a cache or index.

    Raises:
        TransientError: The storage failed.
    """
    if bad.transient:
        raise TransientError(
            f"{bad.key} cannot be read on {node()} ({bad.reason}), and is not left out, since it may be sound: run the same "
            "command again; where it stays so, make it readable there, or take it out of the data"
        )


def lasting(samples: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield samples whose results will be stored in a cache, an index or a fingerprint.

    Raises:
        TransientError: See `require_read`.
    """
    for sample in samples:
        if isinstance(sample, BadSample):
            require_read(sample)
        yield sample


def refuse_folder_error(error: OSError) -> None:
    """Raise the error of a folder that cannot be listed, for ``os.walk(..., onerror=)``, which skips it by default.

    Raises:
        SourceError: Unless the folder does not exist or is no folder.
    """
    if is_transient(error):
        raise SourceError(
            f"{error.filename} cannot be listed ({reason_of(error)}): give a folder that can be read"
        ) from None


class OptionalFile:
    """A with block that ends without an error if a file or folder does not exist, or is of another kind.

    Args:
        location: Its path, for the error.

    Raises:
        SourceError: It may exist and cannot be read.
    """

    def __init__(self, location: object) -> None:
        self._location = location

    def __enter__(self) -> None:
        """Start the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """End the block; suppress the OSError of a missing file."""
        if not isinstance(error, OSError):
            return False
        if is_transient(error):
            raise SourceError(f"{self._location} cannot be read: {reason_of(error)}") from None
        return True


def size_or_missing(path: str) -> int:
    """Return the size of a file in bytes, -1 if it does not exist.

    Raises:
        SourceError: It is unknown whether it exists.
    """
    with OptionalFile(path), suppress(ValueError):  # for a name that no file can have
        return os.stat(path).st_size  # noqa: PTH116  # a third of the time of Path.stat
    return -1


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the files in a folder; both empty if it does not exist.

    Raises:
        SourceError: It cannot be listed.
    """
    return next(os.walk(folder, onerror=refuse_folder_error), ("", [], []))[1:]


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder; `Path.rglob` passes over folders that cannot be listed.

    Raises:
        SourceError: A folder cannot be listed.
    """
    for path, _, names in os.walk(folder, onerror=refuse_folder_error):
        yield from (Path(path, name) for name in names)


def _oserror_of(error: BaseException | None) -> OSError | None:
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _shown(location: str) -> str:
    if "://" not in location:
        return location
    from readers.storage.remote.options import shown

    return shown(location)
