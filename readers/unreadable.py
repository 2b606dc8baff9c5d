"""Storage that cannot be read, in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from readers.sample import SourceError


@contextmanager
def unreadable(place: str) -> Iterator[None]:
    """Make a SourceError of what the storage raises: a file without leave, a server that fails, an object that changed.

    Args:
        place: The path or URL, for the error.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"{_shown(place)} cannot be read: {error.strerror or error}") from None


def _shown(place: str) -> str:
    if "://" not in place:
        return place
    from readers.remote.storage import shown

    return shown(place)
