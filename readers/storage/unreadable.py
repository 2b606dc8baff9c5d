"""Classify and convert errors of reading: which may go away, which become a SourceError, and which are ignored."""

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
"""Seconds to wait before each retry of a failed read: enough for a fail-over of NFS or the renewal of a lease."""
# Numbers of errors that are caused by the data, so that every attempt fails.
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
    """Convert each OSError of the with block, such as a missing permission, into a SourceError.

    Args:
        location: Path or URL of the file that the block reads, for the error.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"{_shown(location)} cannot be read: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return the text of an error without the path that Python appends to the text of an OSError."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def is_transient(error: BaseException | None) -> bool:
    """Return whether an error comes from the storage (a disk, a network, a server, a permission) and may go away.

    A file that does not exist, or is not a regular file, is an error of the data, which does not go away. An error that is
    not an OSError counts like the OSError that caused it; if it was pickled, its cause is lost.
    """
    found = _oserror_of(error)
    return found is not None and found.errno not in _OF_THE_DATA


def is_missing(error: BaseException) -> bool:
    """Return whether an error means that a file or object does not exist."""
    return has_errno(error, errno.ENOENT, errno.ENOTDIR)


def has_errno(error: BaseException, *numbers: int) -> bool:
    """Return whether an error is, or was caused by, an OSError with one of these errno values."""
    found = _oserror_of(error)
    return found is not None and found.errno in numbers


def require_read(bad: BadSample) -> None:
    """Raise an error if a sample is only bad because the storage failed.

    Call this before a result for the sample is stored in a cache or an index: the sample may be readable later.

    Raises:
        TransientError: The storage failed to give the sample.
    """
    if bad.transient:
        raise TransientError(
            f"{bad.key} cannot be read on {node()} ({bad.reason}), and is not left out, since it may be sound: run the same "
            "command again; where it stays so, make it readable there, or take it out of the data"
        )


def lasting(samples: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield samples unchanged, but raise an error at a sample that is only bad because the storage failed.

    Use it if results for the samples will be stored in a cache, an index or a fingerprint.

    Raises:
        TransientError: The storage failed to give a sample.
    """
    for sample in samples:
        if isinstance(sample, BadSample):
            require_read(sample)
        yield sample


def refuse_folder_error(error: OSError) -> None:
    """Raise a SourceError for a folder that cannot be listed; for ``os.walk(..., onerror=)``, which ignores such folders.

    Raises:
        SourceError: The folder exists but cannot be listed; a folder that does not exist is still ignored.
    """
    if is_transient(error):
        raise SourceError(
            f"{error.filename} cannot be listed ({reason_of(error)}): give a folder that can be read"
        ) from None


class OptionalFile:
    """A context manager that suppresses OSErrors because a file or folder does not exist, or is of another kind.

    Args:
        location: Path of the file or folder, for the error.

    Raises:
        SourceError: The block raised another OSError: the file may exist, but cannot be read.
    """

    def __init__(self, location: object) -> None:
        self._location = location

    def __enter__(self) -> None:
        """Enter the block; nothing is opened."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Leave the block; suppress the OSError of a missing file, and raise a SourceError for another OSError."""
        if not isinstance(error, OSError):
            return False
        if is_transient(error):
            raise SourceError(f"{self._location} cannot be read: {reason_of(error)}") from None
        return True


def size_or_missing(path: str) -> int:
    """Return the size of a file in bytes, -1 if it does not exist.

    Raises:
        SourceError: The file system did not tell whether the file exists.
    """
    with OptionalFile(path), suppress(ValueError):  # for a name that no file can have
        return os.stat(path).st_size  # noqa: PTH116  # a third of the time of Path.stat
    return -1


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the subfolders and the names of the files in a folder; both empty if it does not exist.

    Raises:
        SourceError: The folder exists but cannot be listed.
    """
    return next(os.walk(folder, onerror=refuse_folder_error), ("", [], []))[1:]


def files_below(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files in a folder and below it.

    Raises:
        SourceError: A folder cannot be listed; `Path.rglob` would skip it silently.
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
