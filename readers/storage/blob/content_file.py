"""A file object over the bytes of a `Content`, for libraries that read files."""

import io
from typing import Any

from readers.sample import Payload
from readers.storage.blob.blob import Content
from readers.storage.blob.mapped import copied


class ContentFile(io.RawIOBase):
    """A raw file object that reads slices of a `Content`; bytes of mapped files are copied safely.

    Args:
        content: All bytes of the file.

    Raises:
        OSError: A slice cannot be read; every method that reads may raise it.
    """

    def __init__(self, content: Content) -> None:
        self._content, self._offset = content, 0

    def readable(self) -> bool:
        """Return that the file can be read."""
        return True

    def seekable(self) -> bool:
        """Return that `seek` works."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to an offset, and return it as counted from the start; after the last byte, reads return nothing.

        Raises:
            ValueError: The offset is before the first byte.
        """
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._offset, io.SEEK_END: len(self._content)}
        sought = starts[whence] + offset
        if sought < 0:
            raise ValueError(f"cannot seek to {offset} from {whence}")
        self._offset = sought
        return sought

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes: `size` of them, fewer at the end of the file, or all if `size` is negative or None."""
        stop = len(self._content) if size is None or size < 0 else self._offset + size
        return bytes(self._take(stop))

    def readall(self) -> bytes:
        """Return all bytes up to the end of the file, by one slice."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill a writable buffer with the next bytes; return their number, which is smaller at the end of the file."""
        target = memoryview(buffer).cast("B")
        data = self._take(self._offset + len(target))
        target[: len(data)] = data
        return len(data)

    def _take(self, stop: int) -> Payload:
        data = copied(self._content[self._offset : stop])
        self._offset += len(data)
        return data
