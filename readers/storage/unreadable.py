"""What is unreadable: error texts, and whether that may pass."""

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
"""Before each further look at what a disk or a network file system failed to give: a fail-over of NFS, a lease that is renewed."""
_OF_THE_DATA = {
    None,  # of who parses the bytes
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
    """Make a SourceError of what the storage raises: a file without leave, a server that fails, an object that changed.

    Args:
        location: The path or URL, for the error.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"{_shown(location)} cannot be read: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """The reason of an OSError, without local paths."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def is_transient(error: BaseException | None) -> bool:
    """Whether an OSError is of the storage and not of the data: a disk, a network, a server, a lack of leave.

    A file that is not there, or is no file, is of the data. Any other error counts as the one that it was raised in place of,
    unless it was pickled.
    """
    found = _oserror_of(error)
    return found is not None and found.errno not in _OF_THE_DATA


def is_missing(error: BaseException) -> bool:
    """Whether an error says that there is no such file or object, which no other failure of the storage does."""
    return has_errno(error, errno.ENOENT, errno.ENOTDIR)


def has_errno(error: BaseException, *numbers: int) -> bool:
    """Whether an error is, or was raised in place of, an OSError with one of these numbers."""
    found = _oserror_of(error)
    return found is not None and found.errno in numbers


def require_read(bad: BadSample) -> None:
    """Refuse to store anything of a sample that may be sound; whatever writes a cache asks this of each bad sample.

    Raises:
        TransientError: The storage failed, here and now.
    """
    if bad.transient:
        raise TransientError(
            f"{bad.key} cannot be read on {node()} ({bad.reason}), and is not left out, since it may be sound: run the same "
            "command again; where it stays so, make it readable there, or take it out of the data"
        )


def lasting(samples: Iterable[_Entry]) -> Iterator[_Entry]:
    """Yield samples whose content is stored: in a cache, an index or a fingerprint.

    Raises:
        TransientError: See `require_read`.
    """
    for sample in samples:
        if isinstance(sample, BadSample):
            require_read(sample)
        yield sample


def refuse_folder_error(error: OSError) -> None:
    """Raise the error of a folder that cannot be listed, for ``os.walk(..., onerror=)``, which else passes over it.

    Raises:
        SourceError: Unless the folder is gone or was none.
    """
    if is_transient(error):
        raise SourceError(
            f"{error.filename} cannot be listed ({reason_of(error)}): give a folder that can be read"
        ) from None


class OptionalFile:
    """A with block that does without a file or folder that is not there, or is of another kind.

    Args:
        location: Its path, for the error.

    Raises:
        SourceError: It may be there and cannot be read.
    """

    def __init__(self, location: object) -> None:
        self._location = location

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """End the block, where it raised an OSError as well."""
        if not isinstance(error, OSError):
            return False
        if is_transient(error):
            raise SourceError(f"{self._location} cannot be read: {reason_of(error)}") from None
        return True


def size_or_missing(path: str) -> int:
    """Return the size of a file in bytes, -1 where there is none.

    Raises:
        SourceError: It cannot be told whether there is one.
    """
    with OptionalFile(path), suppress(ValueError):  # a name that no file can have
        return os.stat(path).st_size  # noqa: PTH116  # a third of the time of Path.stat
    return -1


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders and of the files in a folder; none where there is no such folder.

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
