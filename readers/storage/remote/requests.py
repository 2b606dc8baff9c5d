"""Make requests to object stores and HTTP servers, with retries, time limits and errors that explain the cause.

The requests themselves are made by the package obstore.
"""

import errno
import importlib
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from readers.detect.registry import require
from readers.sample import Payload, SourceError
from readers.storage.remote.azure import azure_settings
from readers.storage.remote.options import (
    AZURE,
    BUCKETS,
    HUB,
    RENAME,
    Address,
    StorageOptions,
    options_of,
    require_url,
    shown,
)
from readers.storage.remote.refusals import ENDPOINTS, STATUS, refusal, unanswered
from readers.storage.traffic import CountingThreads

T = TypeVar("T")

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 10.0
"""Waits between attempts double from the first to the longest: overloaded servers need time to recover."""
_ENDLESS = "3650days"
"""Time limit of requests that transfer a whole file, whose time depends on its size; obstore has no infinite limit."""
_UNADDRESSABLE = re.compile(r'path: "((?:[^"\\]|\\.)*)"')
"""Finds the key in the text of obstore's error for a listing with a key that it cannot parse."""
_STRANGER_SECONDS = 4.0
"""Time limit for a server that never answered this process, so that a misspelt name is reported soon."""
_RETRIES_OF_REFUSALS = 2
"""Retries after status 403: new credentials take a moment to reach all servers, and a retry costs 0.2 s."""


class State(NamedTuple):
    """The version of an object's content, to detect changes.

    Attributes:
        size_bytes: Size of the object.
        etag: ETag of the object; "" if the server gives none.
        modified: Time of the last change, in ISO format.
    """

    size_bytes: int
    etag: str
    modified: str

    @classmethod
    def of(cls, meta: Any) -> "State":
        """Return the size, ETag and time of change of an object, from obstore's metadata."""
        return cls(int(meta["size"]), meta["e_tag"] or "", meta["last_modified"].isoformat())


class Connection:
    """Makes requests to one bucket or HTTP server; most of them are not retried here, see `attempt`.

    Args:
        address: Address of any object in the bucket or on the server.
        options: Options of the connection.
    """

    def __init__(self, address: Address, options: StorageOptions) -> None:
        self._address, self._options = address, options

    def _state_of(self, meta: Any) -> State:
        state = State.of(meta)
        # Files of a commit never change, but the servers that deliver them may give them other times and ETags.
        return State(state.size_bytes, "", "") if self._address.scheme == HUB else state

    def head(self, path: str) -> State:
        """Return the state of an object, without reading its bytes."""
        if self._address.scheme in BUCKETS:
            try:
                return self._state_of(_obstore().head(self._store(), path))
            except Exception as error:
                if refusal(error, self._address.scheme) is None:
                    raise
                # An answer to HEAD has no body, so only GET gives the reason.
        # A HEAD does not tell whether an HTTP server serves ranges, and a signed URL is valid for GET only.
        return self._state_of(_obstore().get(self._store(), path, options={"range": (0, 1)}).meta)

    def get(self, path: str, start: int, stop: int, state: State) -> Payload:
        """Return the bytes of an object from `start` up to, but not including, `stop`.

        Raises:
            OSError: ESTALE if the object is no longer in the given state; EIO if the answer is too short.
        """
        result = _obstore().get(self._store(), path, options={"range": (start, stop)})
        found = self._state_of(result.meta)
        if found != state:
            raise changed(state, found)
        data = memoryview(result.bytes())
        if len(data) != stop - start:
            raise OSError(errno.EIO, f"{len(data)} bytes came instead of {stop - start}")
        return data

    def chunks(self, path: str) -> tuple[State, Any]:
        """Return the state of an object, and an iterator over its bytes from front to back."""
        result = _obstore().get(self._store(endless=True), path)
        return self._state_of(result.meta), result.stream(min_chunk_size=1 << 20)

    def put(self, path: str, file: Path) -> None:
        """Upload a file as an object; an existing object is replaced when all bytes have arrived."""
        _obstore().put(self._store(endless=True), path, file)

    def writer(self, path: str, *, part_bytes: int, concurrency: int) -> Any:
        """Return a file object that writes an object; an existing object is replaced when the writer is closed.

        Uploads of parts are retried as `StorageOptions` says. If its with block raises an error, the writer removes the parts
        that it has uploaded.

        Args:
            path: Path of the object.
            part_bytes: Size of a part of the upload.
            concurrency: Number of parts that are uploaded at a time.
        """
        store = self._store(retries=self.retries)
        return _obstore().open_writer(
            store, path, buffer_size=part_bytes, max_concurrency=concurrency
        )

    def whole(self, path: str) -> bytes:
        """Return all bytes of a small object."""
        return bytes(_obstore().get(self._store(), path).bytes())

    def remove(self, path: str) -> None:
        """Remove an object."""
        _obstore().delete(self._store(), path)

    def states(self, prefix: str, after: str | None) -> Iterator[list[tuple[str, State]]]:
        """Yield pages of the objects below a prefix with their states, in the order of the store.

        Args:
            prefix: The prefix; "" lists all objects.
            after: Only objects after this key are listed; None lists all.
        """
        listed = _obstore().list(
            self._store(), prefix=prefix or None, offset=after, chunk_size=1000
        )
        for chunk in listed:
            yield [(str(meta["path"]), State.of(meta)) for meta in chunk]

    @property
    def retries(self) -> int:
        """Number of retries of a request that gets no answer; fewer if the server has never answered this process."""
        most = self._options.retries
        known = _server_of(self._address, self._options) in _reached
        return most if known else min(most, _RETRIES_OF_STRANGERS)

    def level(self, folder: str) -> tuple[dict[str, State], list[str]]:
        """Return the objects directly in a folder with their states, and the paths of its subfolders."""
        listed = _obstore().list_with_delimiter(self._store(), folder or None)
        objects = {str(meta["path"]): State.of(meta) for meta in listed["objects"]}
        return objects, list(map(str, listed["common_prefixes"]))

    def _store(self, *, endless: bool = False, retries: int = 0) -> Any:
        # These variables are part of the key, since a program may change them later.
        named = tuple(map(os.environ.get, ENDPOINTS))
        address, options = self._address, self._options
        seconds = options.timeout_seconds
        if not retries:  # a part of a write may take longer
            seconds = _request_seconds(_server_of(address, options), options)
        key = (address.scheme, address.root, options, named, endless, retries, seconds)
        runtime = _current
        if key not in runtime.stores:
            runtime.stores[key] = _make_store(address, options, endless, retries, seconds)
        return runtime.stores[key]


def _make_store(
    address: Address, options: StorageOptions, endless: bool, retries: int, timeout_seconds: float
) -> Any:
    _obstore()
    stores = importlib.import_module("obstore.store")
    seconds = f"{max(int(timeout_seconds * 1000), 1)}ms"
    # Less than the limit of a request, so that a missing connection is distinguished from a missing answer.
    connect = f"{max(int(min(timeout_seconds, _STRANGER_SECONDS) * 750), 1)}ms"
    settings = dict(options.settings)
    client = {
        "timeout": _ENDLESS if endless else seconds,
        "read_timeout": seconds,
        "connect_timeout": connect,
        # A URL with http:// is meant as it is; https:// is never downgraded.
        "allow_http": (options.endpoint or address.root).startswith("http://")
        or address.scheme == "http",
        **settings.pop("client_options", {}),
    }
    # obstore does not retry reads whose body breaks off, so `attempt` retries all reads.
    repeated = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=options.deadline_seconds),
        "backoff": {
            "init_backoff": timedelta(seconds=_FIRST_WAIT_SECONDS),
            "max_backoff": timedelta(seconds=_LONGEST_WAIT_SECONDS),
            "base": 2,
        },
    }
    if address.scheme == HUB:
        hub = require("huggingface_hub", extra="hf")
        name, _, commit = address.root.rpartition("@")
        url = f"{hub.constants.ENDPOINT}/{name}/resolve/{commit}"
        # They hold the token, if there is one; it is read here, so that URLs and pickles hold none.
        client["default_headers"] = hub.utils.build_hf_headers()
        client["allow_http"] = url.startswith("http://")
        return stores.HTTPStore.from_url(url, client_options=client, retry_config=repeated)
    if address.scheme in ("http", "https"):
        return stores.HTTPStore.from_url(address.root, client_options=client, retry_config=repeated)
    if options.anonymous:
        settings["skip_signature"] = True
    root, name = address.root, "endpoint"
    if address.scheme in AZURE:
        root, settings = azure_settings(root, options.endpoint, settings)
        kind, endpoint = stores.AzureStore, settings.get(name)
    elif address.scheme == "gs":
        kind, name, endpoint = stores.GCSStore, "base_url", options.endpoint or _emulator()
    else:
        named = require_url(os.environ.get("AWS_ENDPOINT_URL"), "AWS_ENDPOINT_URL")
        kind, endpoint = stores.S3Store, options.endpoint or named
    if endpoint:
        settings.setdefault(name, endpoint)
        client["allow_http"] = str(endpoint).startswith("http://")
    return kind(root, client_options=client, retry_config=repeated, **settings)


def _emulator() -> str | None:
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    return host if not host or "://" in host else f"http://{host}"


def attempt(
    action: Callable[[], T],
    url: str,
    options: StorageOptions,
    done: str = "read",
    *,
    deadline: float | None = None,
) -> T:
    """Make a request and return its answer; the request is repeated after errors that may go away.

    Args:
        action: Makes the request.
        url: URL of the object.
        options: Number of retries and time limits.
        done: Participle of the action, for errors.
        deadline: Time by `time.monotonic` at which to give up; None is ``options.deadline_seconds`` from now.

    Raises:
        OSError: The request cannot succeed (ENOENT, EACCES, ESTALE, EINVAL), or failed in all attempts (EIO, ETIMEDOUT);
            strerror is a sentence without credentials.
    """
    began = time.monotonic()
    if deadline is None:
        deadline = began + options.deadline_seconds
    address = Address.of(url)
    server = _server_of(address, options)
    most = options.retries
    for number in range(options.retries + 1):
        try:
            result = action()
            _reached.add(server)
            return result
        except Exception as error:  # noqa: BLE001  # obstore's errors have no other common base
            final = _final_error(error, address.scheme, server in _reached)
            if final and (number >= _RETRIES_OF_REFUSALS or "status code: 403" not in str(error)):
                raise final from None
            silence = unanswered(error, options)
            reason = silence or _reason(error)
        if silence and server not in _reached:
            most = min(options.retries, _RETRIES_OF_STRANGERS)
            patience = max(_STRANGER_SECONDS, _request_seconds(server, options))
            deadline = min(deadline, began + patience)
        wait = min(_FIRST_WAIT_SECONDS * 2**number, _LONGEST_WAIT_SECONDS) * _jitter.uniform(0.5, 1)
        if number >= most or time.monotonic() + wait > deadline:
            if final:
                raise final
            break
        time.sleep(wait)
    spent = time.monotonic() - began
    code = errno.EIO if number >= most else errno.ETIMEDOUT
    times = "1 attempt" if number == 0 else f"{number + 1} attempts"
    raise OSError(
        code,
        f"{shown(url)} could not be {done} in {times} and {spent:.1f} s, the last error was: {reason}",
    )


def note_write(url: str) -> None:
    """Record that a write to a URL has succeeded, so that its store counts as reachable."""
    _reached.add(_server_of(Address.of(url), options_of(url, None)))


def write_failure(error: Exception, url: str) -> str:
    """Return the reason why a write failed in all attempts, without credentials, given the last exception from obstore."""
    address, options = Address.of(url), options_of(url, None)
    reached = _server_of(address, options) in _reached
    refused = refusal(error, address.scheme, reached=reached, writing=True)
    if refused:
        return str(refused.strerror)
    return f"the last error was: {unanswered(error, options) or _reason(error)}"


_RETRIES_OF_STRANGERS = 2
"""Number of retries of requests to a server that never answered this process: its name may be misspelt."""
_jitter = random.Random()
_Server = tuple[str | None, str]
_reached: set[_Server] = set()
"""Servers and buckets that have answered this process."""


def _server_of(address: Address, options: StorageOptions) -> _Server:
    # Without the query, since signatures differ from file to file.
    return options.endpoint, address.root.partition("?")[0]


def _request_seconds(server: _Server, options: StorageOptions) -> float:
    # A limit that the user set also holds for the first request: the user may know that the server is slow.
    is_given = options.timeout_seconds != StorageOptions.timeout_seconds
    return options.timeout_seconds if is_given or server in _reached else _STRANGER_SECONDS


def changed(before: State, now: State) -> OSError:
    """Return the error for an object that was replaced after it was opened."""
    if before._replace(etag="") == now._replace(etag=""):
        text = (
            "its ETag has changed since it was opened, its size and time have not: open it again; if it was not "
            "written, read from one server instead of several with different ETags"
        )
    else:
        text = "it has changed since it was opened: open it again"
    return OSError(errno.ESTALE, text)


def _final_error(error: Exception, scheme: str, reached: bool) -> OSError | None:
    """Return the error to raise if no further attempt can succeed; None if a retry may succeed.

    Args:
        error: The exception from obstore.
        scheme: Scheme of the URL.
        reached: Whether the server has answered this process before.
    """
    kind = type(error).__name__
    if isinstance(error, FileNotFoundError) and error.errno is None:  # of obstore
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    if isinstance(error, SourceError | MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ESTALE, errno.EINVAL):
        return error
    if refused := refusal(error, scheme, reached=reached):
        return refused
    if kind == "InvalidPathError" and (key := _UNADDRESSABLE.search(str(error))):
        return OSError(errno.EINVAL, f"{_reason(error)}: {RENAME}", key[1])
    if kind in ("InvalidPathError", "UnknownConfigurationKeyError", "TypeError", "ValueError"):
        return OSError(errno.EINVAL, _reason(error))
    return None


def _reason(error: Exception) -> str:
    """Return one line of an error's text, without URLs, as these may contain signatures."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    if status := STATUS.search(text):
        return f"{status[1]} {status[2].strip()}".strip()
    if "operation timed out" in text or "TimedOut" in text:
        return "no answer in time"
    line = re.sub(r"\b[a-z]+://\S+", "(URL)", text.partition("\n")[0])
    return line.rpartition(" - ")[2].strip(" :") or type(error).__name__


class _Runtime:
    """The open connections and threads of a process; a forked child gets a new object."""

    def __init__(self) -> None:
        self.stores: dict[Any, Any] = {}
        self.pools: dict[tuple[str, int], ThreadPoolExecutor] = {}


_current = _Runtime()
_obstore_is_inherited = False
_buried: list[object] = []
"""Connections of the parent process: freeing them in a child would wait for threads that do not exist there."""


def pool(name: str, size: int) -> ThreadPoolExecutor:
    """Return the thread pool of this process for one kind of work, `name`, which has `size` threads."""
    pools = _current.pools
    if (name, size) not in pools:
        pools.setdefault((name, size), CountingThreads(size, f"gpu-aug-{name}"))
    return pools[name, size]


def _obstore() -> ModuleType:
    if _obstore_is_inherited:  # a child has none of its threads, so every call would wait for ever
        raise SourceError(
            "remote data cannot be read in a process that was forked from one that has read some: start "
            "processes with spawn or forkserver, such as DataLoader(multiprocessing_context='spawn')"
        )
    return require("obstore", extra="remote")


def _after_fork() -> None:
    global _current, _obstore_is_inherited
    _buried.append(_current)
    _current = _Runtime()
    _obstore_is_inherited = "obstore" in sys.modules


os.register_at_fork(after_in_child=_after_fork)
