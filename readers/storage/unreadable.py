"""Error texts for unreadable storage."""

from collections.abc import Iterator
from contextlib import contextmanager

from readers.sample import SourceError


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


def _shown(location: str) -> str:
    if "://" not in location:
        return location
    from readers.storage.remote.options import shown

    return shown(location)
