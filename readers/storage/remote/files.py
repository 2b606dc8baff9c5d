"""Read parts of files in object stores and on HTTP servers.

    blob = open_remote("s3://bucket/train-000.tar")
    payloads = blob.read([(1536, 90_112), (90_624, 210_000)])

Ranges that are close together are read by one request, requests run in parallel, and blocks are stored in a cache of limited
size on disk (`readers.storage.remote.cache`). A read never mixes two versions of an object: if an object is replaced while it
is in use, reading raises an error.
"""

import errno
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future

from readers.sample import Payload, SourceError
from readers.storage.remote.cache import BlockCache, open_cache
from readers.storage.remote.options import Address, StorageOptions, Url, options_of, shown
from readers.storage.remote.requests import Connection, State, attempt, pool
from readers.storage.traffic import count

MERGE_GAP_BYTES = 256 << 10
"""Two ranges with at most this many bytes between them are read by one request, as a second request would cost more."""
_REQUEST_BYTES = 8 << 20
"""Largest number of bytes of a request: longer ranges are divided, so that their parts are read in parallel."""
_WINDOW_BYTES = 8 << 20
"""Number of bytes that a scan reads at a time, while two further windows are requested."""

Range = tuple[int, int]


def open_remote(url: str, options: StorageOptions | None = None) -> "RemoteBlob":
    """Open an object in a store or a file on an HTTP server, and return it.

    Args:
        url: ``scheme://bucket/path`` for stores, with the path not percent-encoded; percent-encoded for HTTP.
        options: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        SourceError: The file does not exist, access is refused, the server cannot be reached or does not serve ranges, or
            obstore is not installed.
    """
    try:
        return find_remote(url, options)
    except OSError as error:
        raise SourceError(f"{shown(url)} cannot be opened: {error.strerror}") from None


def find_remote(url: str, options: StorageOptions | None = None) -> "RemoteBlob":
    """Open a remote file as `open_remote` does, and return it.

    Raises:
        OSError: The file does not exist (ENOENT), access is refused, or the server cannot be reached.
        SourceError: The server does not serve ranges, or obstore is not installed.
    """
    options = options_of(url, options)
    address = Address.of(url)
    if not address.path or address.path.endswith("/"):
        raise SourceError(f"{shown(url)} names no file: give the URL of one, or list it")
    connection = Connection(address, options)

    def ask() -> State:
        try:
            return connection.head(address.path)
        except Exception as error:
            if type(error).__name__ == "NotSupportedError":
                raise NoRangesError(
                    f"the server of {shown(url)} gives no parts of files (it answers with the whole): read it "
                    "from front to back with format='stream', or copy it to this machine"
                ) from None
            raise

    return RemoteBlob(url, options, attempt(ask, url, options))


class NoRangesError(SourceError):
    """The server does not serve ranges: it answers a request for a range with the whole file."""


class RemoteBlob:
    """A remote file as a `readers.storage.blob.Blob`. It can be pickled, and holds no open connection.

    Args:
        url: URL of the file.
        options: Options of the connection.
        state: State of the file when it was opened; later reads must find it in this state.
    """

    def __init__(self, url: str, options: StorageOptions, state: State) -> None:
        self.location: str = Url(url, options)
        self.options = options
        self._state = state
        self._address = Address.of(url)
        self._connection = Connection(self._address, options)
        self.name = self._address.path.rpartition("/")[2]
        self.size_bytes = state.size_bytes
        self.stamp = " ".join(map(str, state))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the state, too, so that another process reads the same content, or gets an error."""
        return RemoteBlob, (self.location, self.options, self._state)

    def read(self, ranges: Sequence[Range]) -> list[Payload]:
        """Return the bytes of several ranges, through the cache; see `Blob.read`."""
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
        """Return the bytes of several ranges, without the cache; see `Blob.read`."""
        requests, parts = _merge_ranges(ranges)
        deadline = time.monotonic() + self.options.deadline_seconds
        if len(requests) == 1:
            answers = [self._request(requests[0], deadline)]
        else:
            threads = pool("request", self.options.concurrency)
            futures = [threads.submit(self._request, request, deadline) for request in requests]
            try:
                answers = [future.result() for future in futures]
            finally:  # after an error the other answers are not needed
                for future in futures:
                    future.cancel()
        count(requests=len(requests), num_bytes=sum(map(len, answers)))
        return [_join([answers[n][start:stop] for n, start, stop in pieces]) for pieces in parts]

    def content(self) -> "Windows":
        """Return the bytes of the whole object for a scan, with read-ahead."""
        return Windows(self, _WINDOW_BYTES, num_ahead=2)

    def _request(self, span: Range, deadline: float) -> Payload:
        def ask() -> Payload:
            return self._connection.get(self._address.path, *span, self._state)

        return attempt(ask, self.location, self.options, deadline=deadline)

    def _cache(self) -> BlockCache | None:
        options = self.options
        return open_cache(options.cache_folder, options.cache_bytes, options.block_bytes)

    def _cache_key(self) -> str:
        address = self._address
        root = address.root.rpartition("@")[2]
        return f"{address.scheme} {self.options.endpoint} {root} {address.path} {self.stamp}"


def _merge_ranges(ranges: Sequence[Range]) -> tuple[list[Range], list[list[tuple[int, int, int]]]]:
    """Return the ranges of requests that cover some ranges, and where each range is found in the answers.

    Returns:
        Ranges to request; and for each given range a list of pieces, (index of the request, start in its answer, stop in its
        answer).
    """
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
        pieces = []
        while start < stop:
            number = bisect_right(starts, start) - 1
            first, last = requests[number]
            pieces.append((number, start - first, min(stop, last) - first))
            start = min(stop, last)
        parts.append(pieces)
    return requests, parts


def _join(pieces: list[Payload]) -> Payload:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Windows:
    """The bytes of a remote file as a `Content`, which is read in windows, with read-ahead of the next ones.

    Args:
        blob: The remote file.
        window_bytes: Size of a window in bytes.
        num_ahead: Number of windows that are requested ahead of the one in use.
        cached: Whether windows are read through the cache on disk.
    """

    def __init__(
        self, blob: RemoteBlob, window_bytes: int, *, num_ahead: int, cached: bool = True
    ) -> None:
        self._blob, self._window_bytes, self._num_ahead = blob, window_bytes, num_ahead
        self._read = blob.read if cached else blob.read_exactly
        self._windows: OrderedDict[int, Future[list[Payload]]] = OrderedDict()

    def __len__(self) -> int:
        return self._blob.size_bytes

    def __getitem__(self, span: slice) -> Payload:
        start, stop, step = span.indices(len(self))
        if step != 1:
            raise ValueError(f"only slices with step 1 can be read, got a step of {step}")
        size = self._window_bytes
        if start >= stop:
            return b""
        numbers = range(start // size, -(-stop // size))
        pieces = [
            self._window(n)[max(start - n * size, 0) : min(stop - n * size, size)] for n in numbers
        ]
        return _join(pieces)

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
            self._windows.pop(number, None)  # the next call tries again
            raise
