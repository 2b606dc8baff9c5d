"""How remote data is reached: options, and URLs that remember them."""

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from readers.sample import SourceError

AZURE = ("az", "abfs", "abfss")
BUCKETS = ("s3", "gs", *AZURE)
"""Schemes of stores with buckets or containers, which can be listed."""
SCHEMES = (*BUCKETS, "http", "https")
_UNADDRESSABLE = re.compile(r"(^|/)\.{0,2}(/|$)")
RENAME = (
    "obstore, which reads stores, cannot address a key with an empty part, '.' or '..' between slashes: copy the object to "
    "a key without, as by aws s3 mv"
)


@dataclass(frozen=True)
class StorageOptions:
    """How remote data is reached and kept.

    Attributes:
        cache_folder: Where blocks that were read are kept; None takes ``$GPU_AUG_CACHE/blocks``, or
            ``~/.cache/gpu-aug/blocks``.
        cache_bytes: The most that lies there, over all processes. None takes 10 GB, or a tenth of the
            free disk if that is less; 0 keeps nothing, and only what is asked for is read.
        block_bytes: Size of a block of the cache, a multiple of 64 KiB.
        retries: Number of times a failed request is repeated.
        timeout_seconds: Longest time for one request, its answer included.
        deadline_seconds: Longest time for one read with all its attempts.
        concurrency: Requests under way at once, per process.
        endpoint: URL of a server that speaks S3, GCS or Azure and is not the provider's own; None takes
            ``AWS_ENDPOINT_URL`` for S3 and ``AZURE_STORAGE_ENDPOINT`` for Azure.
        anonymous: Whether requests go out unsigned, for public buckets.
        settings: Further settings of obstore's store, such as {"region": "eu-west-1"}. Credentials are better
            left in the usual environment variables (AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_KEY, ...).

    Raises:
        ValueError: A number is negative, or 0 where that makes no sense.

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
    """Return an endpoint, or refuse one that is no URL of a server: obstore would panic or search for its name.

    Raises:
        SourceError: It has no scheme, or another than http or https.
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

    def __format__(self, spec: str) -> str:
        """Return it for a sentence, as `shown` does; see `readers.storage.paths.with_path` for another URL made of it."""
        return format(shown(str(self)), spec)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled with its options."""
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
        """Take a URL apart.

        Raises:
            SourceError: It is of no kind that can be read, or its path is none that can be asked for.
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
