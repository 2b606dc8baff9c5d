"""The interface of a file, local or remote, as the readers use it."""

from collections.abc import Sequence
from typing import Protocol

from readers.sample import Payload


class Content(Protocol):
    """The bytes of a file as a scan sees them: slices, most often from the front to the back."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Payload: ...


class Blob(Protocol):
    """A file that does not change while it is in use.

    Attributes:
        name: Last part of its path or URL.
        location: Path or URL, for people and for the helper process.
        size_bytes: Its length.
        stamp: Text that changes whenever the content does: which file it is and its times, or an object's
            ETag.
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
