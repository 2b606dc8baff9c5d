"""Options of connections to remote data, and URLs that carry them."""

import os
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from readers.sample import SourceError

AZURE = ("az", "abfs", "abfss")
"""URL schemes of Azure Blob Storage, as fsspec and Hadoop write them."""
BUCKETS = ("s3", "gs", *AZURE)
"""URL schemes of stores with buckets or containers, which can be listed."""
SCHEMES = (*BUCKETS, "http", "https")
"""All URL schemes that can be read."""
HUB = "hf"
"""Scheme of files of the Hugging Face Hub, ``hf://datasets/NAMESPACE/NAME@COMMIT/PATH``; the reader of its repositories makes
these URLs, in which the revision is a commit."""
_UNADDRESSABLE = re.compile(r"(^|/)\.{0,2}(/|$)")
"""Matches keys that obstore cannot address: with an empty part, ``.`` or ``..`` between slashes."""
RENAME = (
    "obstore, which reads stores, cannot address a key with an empty part, '.' or '..' between slashes: copy the object to "
    "a key without, as by aws s3 mv"
)
"""Advice for keys that obstore cannot address."""


@dataclass(frozen=True)
class StorageOptions:
    """Options of connections to remote data, and of the cache of blocks.

    Attributes:
        cache_folder: Folder of the cache of blocks; None takes ``$GPU_AUG_CACHE/blocks``, or
            ``~/.cache/gpu-aug/blocks``.
        cache_bytes: Largest size of the cache, over all processes. None takes 10 GB, or a tenth of the
            free disk if that is less; 0 stores nothing, and only the requested bytes are read.
        block_bytes: Size of a block of the cache, a multiple of 64 KiB.
        retries: Largest number of times that a failed request is repeated.
        timeout_seconds: Time limit of one request with its answer.
        deadline_seconds: Time limit of one read with all of its attempts.
        concurrency: Number of requests that a process makes at the same time.
        endpoint: URL of a server with the interface of S3, GCS or Azure that is not the provider's own; None takes
            ``AWS_ENDPOINT_URL`` for S3 and ``AZURE_STORAGE_ENDPOINT`` for Azure.
        anonymous: Whether requests go out unsigned, for public buckets.
        settings: Further settings of obstore's store, such as {"region": "eu-west-1"}. Credentials are better
            left in the usual environment variables (AWS_ACCESS_KEY_ID, AZURE_STORAGE_ACCOUNT_KEY, ...).

    Raises:
        ValueError: A value is out of range.

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
    """Return an endpoint unchanged, after checking that it is a URL: with other texts obstore would crash, or query DNS.

    Args:
        endpoint: The endpoint; None or "" for none.
        name: Name of the option or variable, for the error.

    Raises:
        SourceError: The endpoint does not begin with http:// or https://.
    """
    if endpoint and not endpoint.startswith(("http://", "https://")):
        host = endpoint.rpartition("://")[2]
        raise SourceError(f"{name} must be a URL such as http://{host}, got {endpoint!r}")
    return endpoint


_default = StorageOptions()


def configure(**changes: Any) -> StorageOptions:
    """Change the default options for all remote data that this process opens from now on, and return them.

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
    """Return whether a location is a URL with a scheme that can be read."""
    scheme, colon, _ = os.fspath(location).partition("://")
    return bool(colon) and scheme.lower() in (*SCHEMES, HUB)


def shown(url: str) -> str:
    """Return a URL in the form for messages: without password, signature and other parts of its query."""
    if not url.lower().startswith("http"):
        return url
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Url(str):
    """A URL that carries the options of its connection; they are pickled with it."""

    __slots__ = ("options",)
    options: StorageOptions

    def __new__(cls, url: str, options: StorageOptions) -> "Url":
        """Create a URL with options."""
        made = super().__new__(cls, url)
        made.options = options
        return made

    def __format__(self, spec: str) -> str:
        """Return the URL in the form for messages, so that f-strings show no credentials; see `shown`."""
        return format(shown(str(self)), spec)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the options, too."""
        return Url, (str(self), self.options)


def options_of(url: str, options: StorageOptions | None) -> StorageOptions:
    """Return the given options, else those stored with the URL, else those of `configure`."""
    return options or (url.options if isinstance(url, Url) else _default)


class Address(NamedTuple):
    """A parsed URL.

    Attributes:
        scheme: Scheme in lower case, such as "s3".
        root: The bucket or container; for HTTP the URL of the server, with the query of the URL; for the Hub
            ``datasets/NAMESPACE/NAME@COMMIT``.
        path: Path of the object in the bucket or on the server, not percent-encoded.
    """

    scheme: str
    root: str
    path: str

    @classmethod
    def of(cls, url: str) -> "Address":
        """Return the parts of a URL.

        Raises:
            SourceError: The scheme cannot be read, or obstore cannot address the path.
        """
        scheme, _, rest = url.partition("://")
        if not is_remote(url):
            kinds = ", ".join(f"{name}://" for name in SCHEMES)
            raise SourceError(f"{shown(url)} cannot be read: give a URL that begins with {kinds}")
        if scheme.lower() in BUCKETS:
            bucket, _, path = rest.partition("/")
            _check_path(path, url)
            return cls(scheme.lower(), bucket, path)
        if scheme.lower() == HUB:
            name, _, inside = rest.partition("@")
            commit, _, path = inside.partition("/")
            return cls(HUB, f"{name}@{commit}", path)
        parts = urllib.parse.urlsplit(url)
        query = f"?{parts.query}" if parts.query else ""
        root = f"{parts.scheme}://{parts.netloc}{query}"
        path = urllib.parse.unquote(parts.path).lstrip("/")
        _check_path(path, url)
        return cls(parts.scheme.lower(), root, path)


def _check_path(path: str, url: str) -> None:
    if path and _UNADDRESSABLE.search(path.rstrip("/")):
        raise SourceError(f"{shown(url)} cannot be read: {RENAME}")
