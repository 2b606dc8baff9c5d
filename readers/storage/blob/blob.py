"""The interface through which readers access a file, local or remote."""

from collections.abc import Sequence
from typing import Protocol

from readers.sample import Payload
from readers.storage.traffic import counted, counting


class Content(Protocol):
    """The bytes of a whole file, which a scan reads in slices, mostly from front to back."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Payload: ...


class Blob(Protocol):
    """A local or remote file that is read in parts, and must not change while it is in use.

    Attributes:
        name: Last part of the path or URL.
        location: Path or URL of the file.
        size_bytes: Size of the file.
        stamp: Text that changes if the content changes: size, times and inode of a local file, size, ETag and time of an
            object.
    """

    name: str
    location: str
    size_bytes: int
    stamp: str

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """Return the bytes of several ranges, in the order given; safe to call from several threads.

        Args:
            ranges: Pairs of the first byte and the byte after the last one.

        Raises:
            OSError: The file is missing, has changed since it was opened, or cannot be read; strerror gives the reason.
        """

    def content(self) -> Content:
        """Return the bytes of the whole file, for one scan; they are read when they are accessed."""


class BlobPayload:
    """The bytes of a blob in the place of a payload, such as a remote video of which few packets are needed.

    A slice is one read, and ``bytes(payload)`` reads the whole file; both raise an OSError if the file cannot be read. Two
    payloads are equal if they are of one blob.

    Args:
        blob: The file.

    Attributes:
        blob: The file, as given.
    """

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        # A decoder reads later, in other threads, and its reads count for the loader that fetched the sample.
        self._traffic = counting()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlobPayload) and self.blob is other.blob

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[Payload]:
        """Return the bytes of several ranges, which are read together; see `Blob.read`."""
        with counted(self._traffic or counting()):
            return self.blob.read(ranges)

    def __len__(self) -> int:
        return self.blob.size_bytes

    def __getitem__(self, part: slice) -> Payload:
        """Return the bytes of a slice with step 1."""
        start, stop, _ = part.indices(len(self))
        [data] = self.read([(start, max(start, stop))])
        return data

    def __bytes__(self) -> bytes:
        return bytes(self[:])
