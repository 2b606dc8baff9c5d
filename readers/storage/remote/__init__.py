"""Files in object stores and on HTTP servers: requests, reads, and a cache on the local disk."""

from readers.storage.remote.files import (
    RemoteBlob,
    file_like,
    list_remote,
    match_remote,
    open_remote,
    stream,
)
from readers.storage.remote.requests import StorageOptions, Url, configure, is_remote, options_of

__all__ = [
    "RemoteBlob",
    "StorageOptions",
    "Url",
    "configure",
    "file_like",
    "is_remote",
    "list_remote",
    "match_remote",
    "open_remote",
    "options_of",
    "stream",
]
