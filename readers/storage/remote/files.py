"""Files in object stores and on HTTP servers: parts of them, a whole one in order, and lists of them.

    blob = open_remote("s3://bucket/train-000.tar")
    payloads = blob.read([(1536, 90_112), (90_624, 210_000)])

Reads that lie close together are one request, requests are made side by side, and what was read is kept
in a bounded cache on disk (`readers.storage.remote.cache`). An object that is replaced while it is in use is noticed: a read
never mixes two contents.
"""

import errno
import io
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from fnmatch import fnmatchcase
from functools import partial
from glob import has_magic
from typing import Any

from readers.sample import Payload, SourceError
from readers.storage.remote.cache import BlockCache, open_cache
from readers.storage.remote.requests import (
    Connection,
    Place,
    State,
    StorageOptions,
    Url,
    attempt,
    changed,
    options_of,
    pool,
    shown,
)

MERGE_GAP_BYTES = 256 << 10  # bytes between two reads that cost less than a request of their own
_REQUEST_BYTES = 8 << 20
_WINDOW_BYTES = 8 << 20
_SMALL_WINDOW_BYTES = 1 << 20

Range = tuple[int, int]


def open_remote(url: str, options: StorageOptions | None = None) -> "RemoteBlob":
    """Open an object or a file by its URL (``s3://``, ``gs://``, ``http://``, ``https://``).

    Args:
        url: For S3 and GCS ``scheme://bucket/path`` with the path as it is; for HTTP percent-encoded.
        options: How to reach it; by default what a `Url` remembers, else what `configure` set.

    Raises:
        SourceError: It is not there, access is refused, the server cannot be reached or gives no
            parts of files, or obstore is not installed.
    """
    options = options_of(url, options)
    place = Place.of(url)
    if not place.path or place.path.endswith("/"):
        raise SourceError(f"{shown(url)} names no file: give the URL of one, or list it")
    connection = Connection(place, options)

    def ask() -> State:
        try:
            return connection.head(place.path)
        except Exception as error:
            if type(error).__name__ == "NotSupportedError":
                raise _NoRangesError(
                    f"the server of {shown(url)} gives no parts of files (it answers with the whole): read it "
                    "from front to back with format='stream', or copy it to this machine"
                ) from None
            raise

    try:
        state = attempt(ask, url, options, time.monotonic() + options.deadline_seconds)
    except OSError as error:
        raise SourceError(f"{shown(url)} cannot be opened: {error.strerror}") from None
    return RemoteBlob(url, options, state)


class _NoRangesError(SourceError):
    """The server answers a request for a part with the whole."""


def list_remote(url: str, options: StorageOptions | None = None) -> list[str]:
    """The URLs of all objects below a prefix (``s3://bucket/folder``), sorted.

    Raises:
        SourceError: There are none, the store cannot be listed, or as for `open_remote`.
    """
    options = options_of(url, options)
    place = Place.of(url)
    if place.scheme not in ("s3", "gs"):
        raise SourceError(
            f"{shown(url)} is a folder on an HTTP server, which cannot be listed: name its files, or "
            "give a pattern such as train-{000..099}.tar"
        )
    connection = Connection(place, options)
    prefix = place.path.rstrip("/")
    deadline = time.monotonic() + options.deadline_seconds
    try:
        paths = attempt(lambda: connection.paths(prefix), url, options, deadline)
    except OSError as error:
        raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
    if not paths:
        raise SourceError(f"{shown(url)} holds no objects: correct the bucket or the folder")
    return [Url(f"{place.scheme}://{place.root}/{path}", options) for path in sorted(paths)]


def match_remote(url: str, options: StorageOptions | None = None) -> list[str]:
    """The URLs of the objects that a pattern fits (``s3://bucket/*/train-*.tar``), sorted.

    ``*``, ``?`` and ``[...]`` stand for characters other than a slash, as in a shell; each folder that may fit is
    listed by a request of its own. An object of just this name comes before all others.

    Raises:
        SourceError: There are none, the store cannot be listed, or as for `open_remote`.
    """
    options = options_of(url, options)
    place = Place.of(url)
    connection = Connection(place, options)
    parts = place.path.split("/")
    fixed = next(number for number, part in enumerate(parts) if has_magic(part))
    found = ["/".join(parts[:fixed])]
    deadline = time.monotonic() + options.deadline_seconds
    for number, part in enumerate(parts[fixed:], start=fixed):
        is_last = number == len(parts) - 1
        try:
            levels = [
                attempt(
                    partial(connection.level, folder, folders=not is_last), url, options, deadline
                )
                for folder in found
            ]
        except OSError as error:
            raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
        found = [path for level in levels for path in _fitting(level, part)]
    if not found:
        raise SourceError(f"{shown(url)} fits no object: correct the pattern")
    return [Url(f"{place.scheme}://{place.root}/{path}", options) for path in sorted(found)]


def _fitting(paths: list[str], pattern: str) -> list[str]:
    """Return the paths whose last part a pattern fits; like those of a shell it fits no hidden ones."""
    names = {path.rpartition("/")[2]: path for path in paths}
    if pattern in names:
        return [names[pattern]]
    hidden = pattern.startswith(".")
    return [
        path
        for name, path in names.items()
        if fnmatchcase(name, pattern) and (hidden or not name.startswith("."))
    ]


class RemoteBlob:
    """A `readers.storage.blob.Blob` behind a URL. It can be pickled and survives a fork; nothing stays open."""

    def __init__(self, url: str, options: StorageOptions, state: State) -> None:
        self.location: str = Url(url, options)
        self.options = options
        self._state = state
        self._place = Place.of(url)
        self._connection = Connection(self._place, options)
        self.name = self._place.path.rpartition("/")[2]
        self.size_bytes = state.size_bytes
        self.stamp = " ".join(map(str, state))

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads the same content, or learns that it has changed."""
        return RemoteBlob, (self.location, self.options, self._state)

    def read(self, ranges: Sequence[Range]) -> list[Payload]:
        """Read half-open byte ranges; see `Blob.read`."""
        for start, stop in ranges:
            if not 0 <= start <= stop <= self.size_bytes:
                raise OSError(
                    errno.EINVAL, f"bytes {start} to {stop} are not in its {self.size_bytes}"
                )
        cache = self._cache()
        if cache is None:
            return self.read_exactly(ranges)
        return cache.read(self._cache_key(), self.size_bytes, ranges, self.read_exactly)

    def read_exactly(self, ranges: Sequence[Range]) -> list[Payload]:
        """Read ranges past the cache; see `read`."""
        requests, parts = _merged(ranges)
        deadline = time.monotonic() + self.options.deadline_seconds
        if len(requests) == 1:
            answers = [self._request(requests[0], deadline)]
        else:
            threads = pool("request", self.options.concurrency)
            futures = [threads.submit(self._request, request, deadline) for request in requests]
            try:
                answers = [future.result() for future in futures]
            finally:  # after an error nobody waits for the others
                for future in futures:
                    future.cancel()
        return [_joined([answers[n][start:stop] for n, start, stop in places]) for places in parts]

    def content(self) -> "Windows":
        """The whole object to scan through, read ahead."""
        return Windows(self, _WINDOW_BYTES, num_ahead=2)

    def _request(self, place: Range, deadline: float) -> Payload:
        def ask() -> Payload:
            return self._connection.get(self._place.path, *place, self._state)

        return attempt(ask, self.location, self.options, deadline)

    def _cache(self) -> BlockCache | None:
        options = self.options
        return open_cache(options.cache_folder, options.cache_bytes, options.block_bytes)

    def _cache_key(self) -> str:
        place = self._place
        root = place.root.rpartition("@")[2]
        return f"{place.scheme} {self.options.endpoint} {root} {place.path} {self.stamp}"


def _merged(ranges: Sequence[Range]) -> tuple[list[Range], list[list[tuple[int, int, int]]]]:
    """Requests that cover ranges, and per range its places: (request, start in it, stop in it)."""
    spans: list[list[int]] = []
    for start, stop in sorted(ranges):
        if start == stop:
            continue
        if spans and start - spans[-1][1] <= MERGE_GAP_BYTES:
            spans[-1][1] = max(spans[-1][1], stop)
        else:
            spans.append([start, stop])
    requests = [
        (first, min(first + _REQUEST_BYTES, stop))
        for start, stop in spans
        for first in range(start, stop, _REQUEST_BYTES)
    ]
    starts = [first for first, _ in requests]
    parts = []
    for start, stop in ranges:
        places = []
        while start < stop:
            number = bisect_right(starts, start) - 1
            first, last = requests[number]
            places.append((number, start - first, min(stop, last) - first))
            start = min(stop, last)
        parts.append(places)
    return requests, parts


def _joined(pieces: list[Payload]) -> Payload:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Windows:
    """The bytes of a blob, in windows of which the next ones are read ahead; a `Content`.

    Args:
        blob: What to read.
        window_bytes: Size of a window.
        num_ahead: How many are on their way while one is in use.
        cached: Whether they go through the cache on disk.
    """

    def __init__(
        self, blob: RemoteBlob, window_bytes: int, *, num_ahead: int, cached: bool = True
    ) -> None:
        self._blob, self._window_bytes, self._num_ahead = blob, window_bytes, num_ahead
        self._read = blob.read if cached else blob.read_exactly
        self._windows: OrderedDict[int, Future[list[Payload]]] = OrderedDict()

    def __len__(self) -> int:
        return self._blob.size_bytes

    def __getitem__(self, place: slice) -> Payload:
        start, stop, step = place.indices(len(self))
        if step != 1:
            raise ValueError(f"only whole stretches can be read, got a step of {step}")
        size = self._window_bytes
        if start >= stop:
            return b""
        numbers = range(start // size, -(-stop // size))
        pieces = [
            self._window(n)[max(start - n * size, 0) : min(stop - n * size, size)] for n in numbers
        ]
        return _joined(pieces)

    def _window(self, number: int) -> Payload:
        for wanted in range(number, number + self._num_ahead + 1):
            start = wanted * self._window_bytes
            if wanted not in self._windows and start < len(self):
                stop = min(start + self._window_bytes, len(self))
                threads = pool("ahead", 8)
                self._windows[wanted] = threads.submit(self._read, [(start, stop)])
        future = self._windows[number]
        self._windows.move_to_end(number)
        while len(self._windows) > self._num_ahead + 2:
            self._windows.popitem(last=False)[1].cancel()
        try:
            return future.result()[0]
        except BaseException:
            self._windows.pop(number, None)  # the next one to ask tries again
            raise


class _RemoteFile(io.RawIOBase):
    """A seekable file over `Windows`."""

    def __init__(self, blob: RemoteBlob, windows: Windows, direct_bytes: int) -> None:
        self._blob, self._windows, self._direct_bytes = blob, windows, direct_bytes
        self._position = 0
        self.name = shown(blob.location)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """Its length, as pyarrow asks for it."""
        return self._blob.size_bytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "seek to before the beginning")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = self.size()
        return bytes(self._take(size))

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        data = self._take(len(target))
        target[: len(data)] = data
        return len(data)

    def _take(self, size: int) -> Payload:
        start = min(self._position, self.size())
        stop = min(start + size, self.size())
        self._position = max(self._position, stop)
        if stop - start >= self._direct_bytes:
            return self._blob.read([(start, stop)])[0]
        return self._windows[start:stop]


def file_like(source: str | RemoteBlob, options: StorageOptions | None = None) -> _RemoteFile:
    """A seekable binary file for libraries that want one (pyarrow, h5py); for one thread at a time.

    Small reads come out of windows of 1 MiB, large ones are requests of their own.
    """
    blob = open_remote(source, options) if isinstance(source, str) else source
    return _RemoteFile(
        blob, Windows(blob, _SMALL_WINDOW_BYTES, num_ahead=0), _SMALL_WINDOW_BYTES // 4
    )


def stream(url: str, options: StorageOptions | None = None) -> io.BufferedReader:
    """A binary file to be read once, from front to back, past the cache; of servers without ranges too.

    Raises:
        SourceError: As for `open_remote`.
        OSError: While it is read: it has changed, or cannot be read on.
    """
    options = options_of(url, options)
    try:
        blob = open_remote(url, options)
    except _NoRangesError:
        return io.BufferedReader(_Forward(url, options), _SMALL_WINDOW_BYTES)
    windows = Windows(blob, _WINDOW_BYTES, num_ahead=3, cached=False)
    return io.BufferedReader(_RemoteFile(blob, windows, blob.size_bytes + 1), _SMALL_WINDOW_BYTES)


class _Forward(io.RawIOBase):
    """A file that comes in one answer; where that breaks off, it is asked for again and what was had is skipped."""

    def __init__(self, url: str, options: StorageOptions) -> None:
        self._url, self._options = url, options
        self._place = Place.of(url)
        self._connection = Connection(self._place, options)
        self._state: State | None = None
        self._chunks: Iterator[bytes] | None = None
        self._position = 0
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        if not self._rest and (self._state is None or self._position < self._state.size_bytes):
            deadline = time.monotonic() + self._options.deadline_seconds
            self._rest = attempt(self._next_chunk, self._url, self._options, deadline)
            self._position += len(self._rest)
        data = self._rest[: len(target)]
        target[: len(data)] = data
        self._rest = self._rest[len(data) :]
        return len(data)

    def _next_chunk(self) -> memoryview:
        if self._chunks is None:
            state, self._chunks = self._connection.chunks(self._place.path)
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
