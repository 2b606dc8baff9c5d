"""Requests to object stores and HTTP servers: which connection, how often, how long, and what failed.

The requests themselves are made by the package obstore.
"""

import errno
import importlib
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from readers.formats.registry import require
from readers.sample import Payload, SourceError
from readers.storage.remote.refusals import refusal

T = TypeVar("T")

SCHEMES = ("s3", "gs", "http", "https")
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 0.1, 10.0
_STATUS = re.compile(r"status code: (\d{3})\s?([A-Za-z' -]*)")
_ENDLESS = "3650days"


@dataclass(frozen=True)
class StorageOptions:
    """How remote data is reached and kept.

    Attributes:
        cache_folder: Where blocks that were read are kept; None takes ``$GPU_AUG_CACHE/blocks``, or
            ``~/.cache/gpu-aug/blocks``.
        cache_bytes: The most that lies there, over all processes. None takes 10 GB, or a tenth of the
            free disk if that is less; 0 keeps nothing, and only what is asked for is read.
        block_bytes: Size of a block of the cache, a multiple of 64 KiB.
        retries: How often a request that failed is made again.
        timeout_seconds: Longest time for one request, its answer included.
        deadline_seconds: Longest time for one read with all its attempts.
        concurrency: Requests under way at once, per process.
        endpoint: URL of a server that speaks S3 or GCS and is not the provider's own; None takes
            ``AWS_ENDPOINT_URL`` for S3.
        anonymous: Whether requests go out unsigned, for public buckets.
        settings: Further settings of obstore's store, such as (("region", "eu-west-1"),). Credentials
            are better left in the usual environment variables (AWS_ACCESS_KEY_ID, ...).
    """

    cache_folder: str | None = None
    cache_bytes: int | None = None
    block_bytes: int = 1 << 18
    retries: int = 8
    timeout_seconds: float = 30.0
    deadline_seconds: float = 300.0
    concurrency: int = 32
    endpoint: str | None = None
    anonymous: bool = False
    settings: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for name in ("timeout_seconds", "deadline_seconds", "concurrency"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")
        for name in ("retries", "cache_bytes"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.block_bytes <= 0 or self.block_bytes % (1 << 16):
            raise ValueError(f"block_bytes must be a multiple of 65536, got {self.block_bytes}")
        if isinstance(self.settings, Mapping):
            object.__setattr__(self, "settings", tuple(sorted(self.settings.items())))


_default = StorageOptions()


def configure(**changes: Any) -> StorageOptions:
    """Change the options of all remote data that this process opens from now on, and return them."""
    global _default
    _default = replace(_default, **changes)
    return _default


def is_remote(location: str | os.PathLike[str]) -> bool:
    """Whether this is a URL of a kind that can be read."""
    scheme, colon, _ = os.fspath(location).partition("://")
    return bool(colon) and scheme.lower() in SCHEMES


def shown(url: str) -> str:
    """A URL for people: without the password and the signature that it may hold."""
    if not url.lower().startswith("http"):
        return url
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Url(str):
    """A URL that remembers how to reach it, in other processes too.

    Attributes:
        options: The options.
    """

    __slots__ = ("options",)
    options: StorageOptions

    def __new__(cls, url: str, options: StorageOptions) -> "Url":
        """Give a URL its options."""
        made = super().__new__(cls, url)
        made.options = options
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled with its options."""
        return Url, (str(self), self.options)


def options_of(url: str, options: StorageOptions | None) -> StorageOptions:
    """Those that are given, else those that the URL remembers, else those of `configure`."""
    return options or (url.options if isinstance(url, Url) else _default)


class State(NamedTuple):
    """What tells one content of an object from another."""

    size_bytes: int
    etag: str
    modified: str

    @classmethod
    def of(cls, meta: Any) -> "State":
        """From what obstore says of an object."""
        return cls(int(meta["size"]), meta["e_tag"] or "", meta["last_modified"].isoformat())


class Place(NamedTuple):
    """A URL taken apart: which store, and what in it."""

    scheme: str
    root: str
    path: str

    @classmethod
    def of(cls, url: str) -> "Place":
        """Take a URL apart.

        Raises:
            SourceError: It is of no kind that can be read.
        """
        scheme, _, rest = url.partition("://")
        if not is_remote(url):
            kinds = ", ".join(f"{name}://" for name in SCHEMES)
            raise SourceError(f"{shown(url)} cannot be read: give a URL that begins with {kinds}")
        if scheme.lower() in ("s3", "gs"):
            bucket, _, path = rest.partition("/")
            return cls(scheme.lower(), bucket, path)
        parts = urllib.parse.urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        root = f"{parts.scheme}://{parts.netloc}{query}"
        return cls(parts.scheme.lower(), root, urllib.parse.unquote(parts.path).lstrip("/"))


class Connection:
    """One store: a bucket, or an HTTP server.

    Args:
        place: Any place in it.
        options: How to reach it.
    """

    def __init__(self, place: Place, options: StorageOptions) -> None:
        self._place, self._options = place, options

    def head(self, path: str) -> State:
        """Ask for the state of an object, without its bytes."""
        if self._place.scheme in ("s3", "gs"):
            try:
                return State.of(_obstore().head(self._store(), path))
            except Exception as error:
                if refusal(error, self._place.scheme) is None:
                    raise
                # The answer to HEAD has no room for the reason, that to GET has.
        # Of an HTTP server it must be known whether it gives parts; and a signed URL is for GET alone.
        return State.of(_obstore().get(self._store(), path, options={"range": (0, 1)}).meta)

    def get(self, path: str, start: int, stop: int, state: State) -> Payload:
        """Read a range of an object that is still in this state.

        Raises:
            OSError: ESTALE, it is in another state; EIO, not all of it came.
        """
        result = _obstore().get(self._store(), path, options={"range": (start, stop)})
        found = State.of(result.meta)
        if found != state:
            raise changed(state, found)
        data = memoryview(result.bytes())
        if len(data) != stop - start:
            raise OSError(errno.EIO, f"{len(data)} bytes came instead of {stop - start}")
        return data

    def chunks(self, path: str) -> tuple[State, Any]:
        """The state of an object, and an iterator over its bytes from front to back."""
        result = _obstore().get(self._store(endless=True), path)
        return State.of(result.meta), result.stream(min_chunk_size=1 << 20)

    def paths(self, prefix: str) -> list[str]:
        """The objects below a prefix, in no certain order."""
        listed = _obstore().list(self._store(), prefix=prefix or None, chunk_size=1000)
        return [str(meta["path"]) for chunk in listed for meta in chunk]

    def level(self, folder: str, *, folders: bool) -> list[str]:
        """What lies in a folder itself: its objects, or the folders in it."""
        listed = _obstore().list_with_delimiter(self._store(), folder or None)
        found = listed["common_prefixes"] if folders else [one["path"] for one in listed["objects"]]
        start = f"{folder}/" if folder else ""
        return [path for path in map(str, found) if "/" not in path.removeprefix(start)]

    def _store(self, *, endless: bool = False) -> Any:
        key = (self._place.scheme, self._place.root, self._options, endless)
        runtime = _current
        if key not in runtime.stores:
            runtime.stores[key] = _make_store(self._place, self._options, endless=endless)
        return runtime.stores[key]


def _make_store(place: Place, options: StorageOptions, *, endless: bool) -> Any:
    stores = importlib.import_module("obstore.store") if _obstore() else None
    assert stores
    seconds = f"{max(int(options.timeout_seconds * 1000), 1)}ms"
    settings = dict(options.settings)
    client = {
        "timeout": _ENDLESS if endless else seconds,
        "read_timeout": seconds,
        "connect_timeout": seconds,
        # Whoever names a server without TLS means it; HTTPS stays HTTPS.
        "allow_http": (options.endpoint or place.root).startswith("http://")
        or place.scheme == "http",
        **settings.pop("client_options", {}),
    }
    once = {"max_retries": 0}  # it would not repeat what breaks off, and knows no deadline
    if place.scheme in ("http", "https"):
        return stores.HTTPStore.from_url(place.root, client_options=client, retry_config=once)
    if options.anonymous:
        settings["skip_signature"] = True
    endpoint = options.endpoint
    if place.scheme == "gs":
        if endpoint := endpoint or _emulator():
            settings.setdefault("base_url", endpoint)
            client["allow_http"] = endpoint.startswith("http://")
        return stores.GCSStore(place.root, client_options=client, retry_config=once, **settings)
    if endpoint := endpoint or os.environ.get("AWS_ENDPOINT_URL"):
        settings.setdefault("endpoint", endpoint)
        client["allow_http"] = endpoint.startswith("http://")
    return stores.S3Store(place.root, client_options=client, retry_config=once, **settings)


def _emulator() -> str | None:
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    return host if not host or "://" in host else f"http://{host}"


def attempt(action: Callable[[], T], url: str, options: StorageOptions, deadline: float) -> T:
    """Make a request until it succeeds.

    Args:
        action: The request.
        url: What is read, for the error.
        options: How often.
        deadline: Until when, by `time.monotonic`.

    Raises:
        OSError: It cannot succeed (ENOENT, EACCES, ESTALE, EINVAL), or did not in all its attempts
            (EIO, ETIMEDOUT); strerror is a sentence without credentials.
    """
    began = time.monotonic()
    place = Place.of(url)
    host = place.root
    most = options.retries
    for number in range(options.retries + 1):
        try:
            result = action()
            _reached.add(host)
            return result
        except Exception as error:  # noqa: BLE001  # obstore's have no common base but this
            if final := _final(error, place.scheme, host in _reached):
                raise final from None
            reason = _reason(error)
        if host not in _reached and "error sending request" in reason:
            most = min(options.retries, _RETRIES_OF_STRANGERS)
        wait = min(_FIRST_WAIT_SECONDS * 2**number, _LONGEST_WAIT_SECONDS) * _jitter.uniform(0.5, 1)
        if number >= most or time.monotonic() + wait > deadline:
            break
        time.sleep(wait)
    spent = time.monotonic() - began
    code = errno.EIO if number >= most else errno.ETIMEDOUT
    times = "1 attempt" if number == 0 else f"{number + 1} attempts"
    raise OSError(
        code,
        f"{shown(url)} could not be read in {times} and {spent:.1f} s, the last error was: {reason}",
    )


_RETRIES_OF_STRANGERS = 2
_jitter = random.Random()
_reached: set[str] = set()  # hosts and buckets that have answered: others may be misspelt


def changed(before: State, now: State) -> OSError:
    """The error of an object that is not the one that was opened."""
    if before._replace(etag="") == now._replace(etag=""):
        text = (
            "its ETag has changed since it was opened, its size and time have not: open it anew, or, where nobody "
            "wrote it, read from one server instead of several that each give an ETag of their own"
        )
    else:
        text = "it has changed since it was opened, open it anew"
    return OSError(errno.ESTALE, text)


def _final(error: Exception, scheme: str, reached: bool) -> OSError | None:
    """The error that no further attempt would mend, or None."""
    kind = type(error).__name__
    if isinstance(error, FileNotFoundError) and error.errno is None:  # of obstore
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    if isinstance(error, SourceError | MemoryError):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ESTALE, errno.EINVAL):
        return error
    if refused := refusal(error, scheme, reached=reached):
        return refused
    if kind in ("InvalidPathError", "UnknownConfigurationKeyError", "TypeError"):
        return OSError(errno.EINVAL, _reason(error))
    return None


def _reason(error: Exception) -> str:
    """One line of what went wrong, without the URLs in it, which may be signed."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)
    if status := _STATUS.search(text):
        return f"{status[1]} {status[2].strip()}".strip()
    for told, word in (
        ("operation timed out", "no answer in time"),
        ("TimedOut", "no answer in time"),
    ):
        if told in text:
            return word
    line = re.sub(r"\b[a-z]+://\S+", "(URL)", text.partition("\n")[0])
    return line.rpartition(" - ")[2].strip(" :") or type(error).__name__


class _Runtime:
    """What a process has open; a child of a fork gets its own."""

    def __init__(self) -> None:
        self.stores: dict[Any, Any] = {}
        self.pools: dict[tuple[str, int], ThreadPoolExecutor] = {}
        self.obstore: ModuleType | None = None
        self.loading = threading.Lock()


_current = _Runtime()
_obstore_is_inherited = False
_obstore_folder = ""  # where the first copy lies; the others are gone from the disk
_buried: list[object] = []  # of the parent: to free its threads from here would wait for ever


def pool(name: str, size: int) -> ThreadPoolExecutor:
    """The threads of this process for one kind of work."""
    pools = _current.pools
    if (name, size) not in pools:
        pools.setdefault((name, size), ThreadPoolExecutor(size, f"gpu-aug-{name}"))
    return pools[name, size]


def _obstore() -> ModuleType:
    runtime = _current
    if runtime.obstore is not None:
        return runtime.obstore
    with runtime.loading:
        if runtime.obstore is None:
            found = require("obstore", extra="remote")
            runtime.obstore = _second_copy(found) if _obstore_is_inherited else found
        return runtime.obstore


def _second_copy(module: ModuleType) -> ModuleType:
    """Load obstore once more, from a copy of its files.

    Its threads have stayed behind in the parent process, which it does not notice: every call would wait
    for ever. They belong to the loaded library, so only a second library has threads of its own.

    Raises:
        SourceError: There is no room for the copy.
    """
    global _obstore_folder
    _obstore_folder = _obstore_folder or os.path.dirname(str(module.__file__))  # noqa: PTH120
    names = [name for name in sys.modules if name.split(".")[0] == "obstore"]
    _buried.extend(sys.modules.pop(name) for name in names)
    try:
        with tempfile.TemporaryDirectory(prefix="gpu-aug-") as folder:
            shutil.copytree(_obstore_folder, f"{folder}/obstore")
            sys.path.insert(0, folder)
            try:
                importlib.invalidate_caches()
                importlib.import_module("obstore.store")
            finally:
                sys.path.remove(folder)
    except OSError as error:
        raise SourceError(
            f"remote data cannot be read in this forked process, since obstore could not be copied ({error}): "
            "free 20 MB in the temporary folder, or start processes with spawn"
        ) from None
    return sys.modules["obstore"]


def _after_fork() -> None:
    global _current, _obstore_is_inherited
    _buried.append(_current)
    _current = _Runtime()
    _obstore_is_inherited = "obstore" in sys.modules


os.register_at_fork(after_in_child=_after_fork)
