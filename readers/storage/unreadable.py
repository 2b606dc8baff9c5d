"""What is unreadable: error texts, and whether that may pass."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from platform import node

from readers.sample import BadSample, SourceError, TransientError

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
def unreadable(location: str) -> Iterator[None]:
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


def refuse_folder_error(error: OSError) -> None:
    """Raise the error of a folder that cannot be listed, for ``os.walk(..., onerror=)``, which else passes over it.

    Raises:
        SourceError: Unless the folder is gone or was none.
    """
    if not is_missing(error):
        raise SourceError(
            f"the folder {error.filename} cannot be read: {reason_of(error)}"
        ) from error


def _oserror_of(error: BaseException | None) -> OSError | None:
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _shown(location: str) -> str:
    if "://" not in location:
        return location
    from readers.storage.remote.options import shown

    return shown(location)
