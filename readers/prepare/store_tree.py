"""The files that `tile` copies from object stores, or to them."""

from collections.abc import Iterator
from glob import has_magic

from readers.prepare.errors import PrepareError
from readers.prepare.tile_copy import is_shard
from readers.prepare.tree import BESIDE, FOLDER, Entry, Tree, not_apart
from readers.prepare.workers import Threads
from readers.storage.destination import Destination, open_destination
from readers.storage.paths import find_paths, shown_path, with_options_of
from readers.storage.remote.options import BUCKETS

_CONNECTIONS = 16


class UploadTree:
    """A tree of this machine whose copies go to a store, where their times tell nothing.

    Args:
        source: As for `Tree`.

    Raises:
        PrepareError: As for `Tree`.
    """

    def __init__(self, source: str) -> None:
        self._tree = Tree(source)
        self.source = self._tree.source

    def entries(self) -> Iterator[Entry]:
        """See `Tree.entries`."""
        for path, name in self._tree.files():
            try:
                status = path.stat()
            except OSError:
                yield Entry(str(path.absolute()), name, 0, "-")
            else:
                stamp = str(status.st_mtime_ns)
                yield Entry(str(path.absolute()), name, status.st_size, stamp)


class StoreTree:
    """The objects below a prefix, or shards by a pattern.

    Args:
        source: A URL.
        destination: Where the copies go.

    Attributes:
        source: The same.

    Raises:
        PrepareError: There are none, or source and destination hold one another.
        SourceError: The store cannot be listed, or a shard is not there.
    """

    def __init__(self, source: str, destination: Destination) -> None:
        self.source = source
        self._prefix = ""
        self._shards: list[str] = []
        if is_shard(source) or has_magic(source) or "{" in source:
            self._shards = _shards(source)
        elif source.partition("://")[0].lower() not in BUCKETS:
            raise PrepareError(
                f"{shown_path(source)} is no prefix of an object store, which could be listed: give one, or .tar shards"
            )
        else:
            self._prefix = source.rstrip("/") + "/"
        self._check(destination.location)

    def entries(self) -> Iterator[Entry]:
        """Every object, in the order of their names; indexes of shards, and what tells of tilings, are left out.

        Raises:
            PrepareError: There are none.
            SourceError: The store cannot be listed, or a shard is not there.
        """
        from readers.storage.remote.listing import states_below

        if self._shards:
            with Threads(_CONNECTIONS) as threads:
                yield from threads.map(_entry_of_shard, self._shards)
            return
        is_empty = True
        prefix = with_options_of(self.source, self._prefix)
        folder = open_destination(prefix)
        for url, state in states_below(prefix):
            name = url[len(self._prefix) :]
            if not state.size_bytes and folder.size_bytes(name) is None:
                continue  # it marks a folder, and its name has lost a slash
            if not name.lower().endswith(BESIDE) and FOLDER not in name.split("/"):
                yield Entry(url, name, state.size_bytes, state.etag or state.modified)
                is_empty = False
        if is_empty:
            raise PrepareError(
                f"{shown_path(self.source)} holds no objects: give a prefix, or .tar shards"
            )

    def _check(self, destination: str) -> None:
        """See that copies and originals do not lie among one another."""
        target = destination + "/"
        if self._shards:
            taken = any(shard.rpartition("/")[0] + "/" == target for shard in self._shards)
        else:
            taken = self._prefix.startswith(target) or target.startswith(self._prefix)
        if taken:
            raise not_apart(shown_path(destination))


def _shards(source: str) -> list[str]:
    from readers.storage.remote import options_of

    urls = find_paths(source, options_of(source, None))
    for url in urls:
        if not is_shard(url):
            raise PrepareError(
                f"{shown_path(url)} is no .tar shard: give the prefix that it lies below"
            )
    if len({url.rpartition("/")[2] for url in urls}) < len(urls):
        raise PrepareError(
            f"two shards of {shown_path(source)} have the same name: take one prefix at a time"
        )
    return urls


def _entry_of_shard(url: str) -> Entry:
    from readers.storage.remote import open_remote

    blob = open_remote(url)
    return Entry(url, blob.name, blob.size_bytes, blob.stamp)
