"""Access to files in object stores and on HTTP servers, with a cache on the local disk."""

from readers.storage.remote.files import RemoteBlob, find_remote, open_remote
from readers.storage.remote.listing import list_around, list_remote, match_remote
from readers.storage.remote.options import StorageOptions, Url, configure, is_remote, options_of
from readers.storage.remote.sequential import stream

__all__ = [
    "RemoteBlob",
    "StorageOptions",
    "Url",
    "configure",
    "find_remote",
    "is_remote",
    "list_around",
    "list_remote",
    "match_remote",
    "open_remote",
    "options_of",
    "stream",
]
