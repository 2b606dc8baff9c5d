"""Options of connections to remote data, and URLs that carry them."""

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from readers.sample import SourceError

AZURE = ("az", "abfs", "abfss")
"""Schemes of Azure Blob Storage, as fsspec and Hadoop write them."""
BUCKETS = ("s3", "gs", *AZURE)
"""Schemes of stores with buckets or containers, which can be listed."""
SCHEMES = (*BUCKETS, "http", "https")
"""All schemes that can be read."""
_UNADDRESSABLE = re.compile(r"(^|/)\.{0,2}(/|$)")
"""Matches keys that obstore cannot address."""
RENAME = (
    "obstore, which reads stores, cannot address a key with an empty part, '.' or '..' between slashes: copy the object to "
    "a key without, as by aws s3 mv"
)
"""Advice for such keys."""


@dataclass(frozen=True)
class StorageOptions:
    """Options of connections to remote data, and of their cache.

    Attributes:
        cache_folder: Folder of the cache of blocks; None takes ``$GPU_AUG_CACHE/blocks``, or
            ``~/.cache/gpu-aug/blocks``.
        cache_bytes: Largest size of the cache, over all processes. None takes 10 GB, or a tenth of the
            free disk if that is less; 0 stores nothing, and only the requested bytes are read.
        block_bytes: Size of a block of the cache, a multiple of 64 KiB.
        retries: Number of times a failed request is repeated.
        timeout_seconds: Longest time for one request with its answer.
        deadline_seconds: Longest time for one read with all its attempts.
        concurrency: Requests in flight at the same time, per process.
        endpoint: URL of a server with the interface of S3, GCS or Azure that is not the provider's own; None takes
            ``AWS_ENDPOINT_URL`` for S3 and ``AZURE_STORAGE_ENDPOINT`` for Azure.
        anonymous: Whether requests go out unsigned, for public buckets.
        settings: Further settings of obstore's store, such as {"region": "eu-west-1"}. Credentials are better
            left in the usual environment variables (AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_KEY, ...).

    Raises:
        ValueError: A number is negative, or 0 where it must be positive.

    Example:
        >>> StorageOptions(endpoint="http://minio:9000", cache_bytes=0).endpoint
        'http://minio:9000'
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
        require_url(self.endpoint, "endpoint")
        if self.block_bytes <= 0 or self.block_bytes % (1 << 16):
            raise ValueError(f"block_bytes must be a multiple of 65536, got {self.block_bytes}")
        if isinstance(self.settings, Mapping):
            object.__setattr__(self, "settings", tuple(sorted(self.settings.items())))


def require_url(endpoint: str | None, name: str) -> str | None:
    """Return an endpoint that is the URL of a server; with another one obstore would panic, or ask DNS for it.

    Raises:
        SourceError: It does not begin with http:// or https://.
    """
    if endpoint and not endpoint.startswith(("http://", "https://")):
        host = endpoint.rpartition("://")[2]
        raise SourceError(f"{name} must be a URL such as http://{host}, got {endpoint!r}")
    return endpoint


_default = StorageOptions()


def configure(**changes: Any) -> StorageOptions:
    """Change the options of all remote data that this process opens from now on, and return them.

    Args:
        changes: Fields of `StorageOptions`.

    Example:
        >>> configure(retries=8).retries
        8
    """
    global _default
    _default = replace(_default, **changes)
    return _default


def is_remote(location: str | os.PathLike[str]) -> bool:
    """Return whether this is a URL with a scheme that can be read."""
    scheme, colon, _ = os.fspath(location).partition("://")
    return bool(colon) and scheme.lower() in SCHEMES


def shown(url: str) -> str:
    """Return a URL for messages, without a password or signature in it."""
    if not url.lower().startswith("http"):
        return url
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Url(str):
    """A URL with the options of its connection, which are pickled with it."""

    __slots__ = ("options",)
    options: StorageOptions

    def __new__(cls, url: str, options: StorageOptions) -> "Url":
        """Create a URL with options."""
        made = super().__new__(cls, url)
        made.options = options
        return made

    def __format__(self, spec: str) -> str:
        """Return the URL for messages, as `shown` does; `readers.storage.paths.with_path` makes other URLs of it."""
        return format(shown(str(self)), spec)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the options as well."""
        return Url, (str(self), self.options)


def options_of(url: str, options: StorageOptions | None) -> StorageOptions:
    """Return the given options, else those stored with the URL, else those of `configure`."""
    return options or (url.options if isinstance(url, Url) else _default)


class Address(NamedTuple):
    """A parsed URL: the store and the path in it."""

    scheme: str
    root: str
    path: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """Parse a URL.

        Raises:
            SourceError: Its scheme or its path cannot be read.
        """
        scheme, _, rest = url.partition("://")
        if not is_remote(url):
            kinds = ", ".join(f"{name}://" for name in SCHEMES)
            raise SourceError(f"{shown(url)} cannot be read: give a URL that begins with {kinds}")
        if scheme.lower() in BUCKETS:
            bucket, _, path = rest.partition("/")
            _check_path(path, url)
            return cls(scheme.lower(), bucket, path)
        parts = urllib.parse.urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        root = f"{parts.scheme}://{parts.netloc}{query}"
        path = urllib.parse.unquote(parts.path).lstrip("/")
        _check_path(path, url)
        return cls(parts.scheme.lower(), root, path)


def _check_path(path: str, url: str) -> None:
    if path and _UNADDRESSABLE.search(path.rstrip("/")):
        raise SourceError(f"{shown(url)} cannot be read: {RENAME}")
