"""Write to a prefix of an object store.

An object appears when all bytes have arrived. A killed writer leaves no object, but the parts that it has uploaded stay
invisibly in the store until a lifecycle rule of the bucket for incomplete multipart uploads removes them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, TypeVar

from readers.sample import PrepareError, ReadersError, SourceError, TransientError
from readers.storage.destination.output import Output
from readers.storage.remote.listing import states_below
from readers.storage.remote.options import BUCKETS, Address, StorageOptions, Url, options_of, shown
from readers.storage.remote.refusals import for_destination
from readers.storage.remote.requests import Connection, attempt, note_write, write_failure

T = TypeVar("T")

_PART_BYTES = 8 << 20
"""Size of a part of an upload. Stores take 10,000 parts, so objects can have up to 80 GB."""
_CONCURRENCY = 4
"""Number of parts that are uploaded at a time: together with the one being filled, a shard takes 40 MB of memory."""


class RemoteDestination:
    """A prefix of an object store as a `Destination`.

    Args:
        location: URL of the prefix.
        storage: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        PrepareError: The URL has a scheme that cannot be written to, or names no bucket.
    """

    def __init__(self, location: str, storage: StorageOptions | None) -> None:
        self._options = options_of(location, storage)
        scheme = location.partition("://")[0].lower()
        if scheme not in BUCKETS:
            kinds = ", ".join(f"{name}://" for name in BUCKETS)
            raise PrepareError(
                f"{shown(location)} cannot be written, since HTTP servers take no files: give a folder, or a URL that "
                f"begins with {kinds}"
                if scheme in ("http", "https")
                else f"{shown(location)} cannot be written: give a folder, or a URL that begins with {kinds}"
            )
        address = Address.of(location)
        if not address.root:
            raise PrepareError(f"{location} names no bucket: give {scheme}://BUCKET/FOLDER")
        self._prefix = address.path.strip("/")
        self._root = f"{address.scheme}://{address.root}"
        self.location: str = Url("/".join(filter(None, [self._root, self._prefix])), self._options)
        self._connection = Connection(address, self._options)

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        url = self.at(name)
        explain = partial(_unwritten, url)
        try:
            writer = self._connection.writer(
                self._path(name), part_bytes=_PART_BYTES, concurrency=_CONCURRENCY
            )
        except Exception as error:  # noqa: BLE001  # the store's errors have no other common base
            raise explain(error) from None
        try:
            yield Output(_Flat(writer), explain)
        except BaseException:
            with suppress(Exception):  # the first error is the one to raise
                writer.__exit__(*sys.exc_info())
            raise
        try:
            writer.close()
        except Exception as error:  # noqa: BLE001  # the store's errors have no other common base
            raise explain(error) from None
        note_write(url)

    def read(self, name: str) -> bytes | None:
        return self._asked(name, lambda: self._connection.whole(self._path(name)))

    def size_bytes(self, name: str) -> int | None:
        state = self._asked(name, lambda: self._connection.head(self._path(name)))
        return None if state is None else state.size_bytes

    def names(self, folder: str = "") -> Iterator[str]:
        start = f"{self._prefix}/" if self._prefix else ""
        try:
            for url, _ in states_below(self.at(folder)):
                yield Address.of(url).path.removeprefix(start)
        except SourceError as error:
            raise _failed(str(error)) from None

    def remove(self, name: str) -> None:
        self._asked(name, lambda: self._connection.remove(self._path(name)), "removed")

    def at(self, name: str) -> str:
        return Url(f"{self.location}/{name}", self._options)

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _asked(self, name: str, action: Callable[[], T], done: str = "read") -> T | None:
        """Return the answer to a request, which is retried after errors; None if the object does not exist.

        Args:
            name: Name of the object, relative to the location.
            action: Makes the request.
            done: Participle of the action, for the error.
        """
        url = self.at(name)
        try:
            return attempt(action, url, self._options, done)
        except FileNotFoundError as error:
            if "no such bucket" not in str(error.strerror):
                return None
            reason = str(error.strerror)
        except OSError as error:
            reason = str(error.strerror)
        except ReadersError as error:
            reason = str(error)
        raise _failed(f"{url} cannot be {done} ({for_destination(reason)})") from None


class _Flat:
    """A file object that passes data to a store's writer as bytes, since the writer refuses other buffers."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, data: Any, /) -> object:
        """Write all bytes."""
        return self._writer.write(data if isinstance(data, bytes) else memoryview(data).cast("B"))


def _failed(text: str) -> TransientError:
    return TransientError(f"{text}: mend it and run the same command again")


def _unwritten(url: str, error: Exception) -> Exception:
    if isinstance(error, TypeError | MemoryError):
        return error  # of the caller
    if isinstance(error, ReadersError):
        return PrepareError(str(error))
    return TransientError(
        f"{shown(url)} cannot be written ({write_failure(error, url)}): objects appear whole or not at all, so mend it and run "
        "the same command again"
    )
