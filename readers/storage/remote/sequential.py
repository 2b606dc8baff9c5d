"""Read remote files once, from front to back, without the cache."""

import errno
import io
from collections.abc import Iterator
from typing import Any

from readers.storage.blob.content_file import ContentFile
from readers.storage.remote.files import NoRangesError, Windows, open_remote
from readers.storage.remote.options import Address, StorageOptions, options_of
from readers.storage.remote.requests import Connection, State, attempt, changed

_WINDOW_BYTES = 8 << 20
"""Number of bytes of a request; three requests are made ahead."""
_BUFFER_BYTES = 1 << 20
"""Small reads, such as of headers of tar members, come from a buffer of this size."""


def stream(url: str, options: StorageOptions | None = None) -> io.BufferedReader:
    """Open a remote file for reading once, from front to back, and return it; the server need not support ranges.

    The cache of blocks is not used. Reading raises an OSError if the file changes meanwhile, or if all attempts fail.

    Args:
        url: URL of the file.
        options: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        SourceError: The file does not exist, access is refused, or the server cannot be reached.
    """
    options = options_of(url, options)
    try:
        blob = open_remote(url, options)
    except NoRangesError:
        return io.BufferedReader(_Forward(url, options), _BUFFER_BYTES)
    windows = Windows(blob, _WINDOW_BYTES, num_ahead=3, cached=False)
    return io.BufferedReader(ContentFile(windows), _BUFFER_BYTES)


class _Forward(io.RawIOBase):
    """A raw file object that reads a remote file by one request for all bytes, for servers without ranges.

    After a broken connection, the file is requested again, and the bytes that were read already are skipped.
    """

    def __init__(self, url: str, options: StorageOptions) -> None:
        self._url, self._options = url, options
        self._address = Address.of(url)
        self._connection = Connection(self._address, options)
        self._state: State | None = None
        self._chunks: Iterator[bytes] | None = None
        self._position = 0
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        if not self._rest and (self._state is None or self._position < self._state.size_bytes):
            self._rest = attempt(self._next_chunk, self._url, self._options)
            self._position += len(self._rest)
        data = self._rest[: len(target)]
        target[: len(data)] = data
        self._rest = self._rest[len(data) :]
        return len(data)

    def _next_chunk(self) -> memoryview:
        if self._chunks is None:
            state, self._chunks = self._connection.chunks(self._address.path)
            if self._state is not None and self._state != state:
                raise changed(self._state, state)
            self._state, skipped = state, 0
        else:
            skipped = self._position
        try:
            while True:
                chunk = memoryview(next(self._chunks))
                if skipped + len(chunk) > self._position:
                    return chunk[self._position - skipped :]
                skipped += len(chunk)
        except StopIteration:
            self._chunks = None
            raise OSError(errno.EIO, f"it broke off at byte {skipped}") from None
        except Exception:
            self._chunks = None
            raise
