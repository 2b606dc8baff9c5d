"""The interface of a file for readers, local or remote."""

from collections.abc import Sequence
from typing import Protocol

from readers.sample import Payload


class Content(Protocol):
    """The bytes of a file for a scan, read in slices, mostly from front to back."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Payload: ...


class Blob(Protocol):
    """A file that does not change while it is in use.

    Attributes:
        name: Last part of its path or URL.
        location: Path or URL.
        size_bytes: Its length.
        stamp: Text that changes with the content: size, times and inode of a file, or the ETag of an object.
    """

    name: str
    location: str
    size_bytes: int
    stamp: str

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """Read half-open byte ranges in one go, in the order given; safe from several threads.

        Raises:
            OSError: The file is missing, has changed since it was opened, or cannot be read; strerror gives the reason.
        """

    def content(self) -> Content:
        """Return the whole file for one scan."""
