"""What is unreadable: error texts, and whether that may pass."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from readers.sample import SourceError

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
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error is not None and error.errno not in _OF_THE_DATA


def _shown(location: str) -> str:
    if "://" not in location:
        return location
    from readers.storage.remote.options import shown

    return shown(location)
