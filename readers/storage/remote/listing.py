"""List the objects in a store: those below a prefix, or those that match a pattern."""

import warnings
from bisect import bisect
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from glob import has_magic
from typing import TypeVar

from readers.describe import few_of
from readers.plural import counted
from readers.sample import SourceError
from readers.storage.atomic_file import OWN
from readers.storage.remote.options import (
    BUCKETS,
    RENAME,
    Address,
    StorageOptions,
    Url,
    options_of,
    shown,
)
from readers.storage.remote.requests import Connection, State, attempt

T = TypeVar("T")

_MARKER = "_$folder$"
"""End of the names of empty objects with which Hadoop marks folders."""


def list_remote(url: str, options: StorageOptions | None = None, *, own: bool = False) -> list[str]:
    """Return the sorted URLs of all objects below a prefix, without empty objects that only mark folders.

    Args:
        url: The prefix, such as ``s3://bucket/folder``.
        options: Options of the connection; by default those of a `Url`, else those of `configure`.
        own: Whether to include files that this package writes next to the data, such as indexes.

    Raises:
        SourceError: There are no objects, the store cannot be listed, or the URL is not one of a store.
    """
    listing = _Listing(url, options)
    if listing.address.scheme not in BUCKETS:
        raise SourceError(
            f"{shown(url)} is a folder on an HTTP server, which cannot be listed: name its files, or "
            "give a pattern such as train-{000..099}.tar"
        )
    prefix = listing.address.path.rstrip("/")
    states = dict(listing.below(prefix))
    listing.warn_of_left_out()
    every = sorted(states)

    def is_marker(path: str) -> bool:
        inside = every[bisect(every, f"{path}/") :][:1] or [""]
        return path == prefix or path.endswith(_MARKER) or inside[0].startswith(f"{path}/")

    found = [path for path in every if states[path].size_bytes or not is_marker(path)]
    found = [path for path in found if own or OWN not in path[len(prefix) :]]
    if not found:
        raise SourceError(f"{shown(url)} holds no objects: correct the bucket or the folder")
    return [listing.url_of(path) for path in found]


def states_below(url: str, options: StorageOptions | None = None) -> Iterator[tuple[str, State]]:
    """Yield the URL and the state of each object below a prefix, in the order of their names.

    This includes empty objects that mark folders; the slash at the end of their names is missing.

    Raises:
        SourceError: The store cannot be listed.
    """
    listing = _Listing(url, options)
    for path, state in listing.below(listing.address.path.rstrip("/")):
        yield listing.url_of(path), state
    listing.warn_of_left_out()


def match_remote(url: str, options: StorageOptions | None = None) -> list[str]:
    """Return the sorted URLs of the objects that match a pattern, such as ``s3://bucket/*/train-*.tar``.

    ``*``, ``?`` and ``[...]`` stand for characters other than a slash, as in a shell; each matching folder is listed by a
    request of its own. If an object has the pattern itself as its name, it is the only match.

    Args:
        url: The pattern.
        options: Options of the connection; by default those of a `Url`, else those of `configure`.

    Raises:
        SourceError: No object matches, the store cannot be listed, or the URL cannot be read.
    """
    listing = _Listing(url, options)
    parts = listing.address.path.split("/")
    fixed = next(number for number, part in enumerate(parts) if has_magic(part))
    found = ["/".join(parts[:fixed])]
    for number, part in enumerate(parts[fixed:], start=fixed):
        is_last = number == len(parts) - 1
        levels = [listing.level(folder) for folder in found]
        found = [
            path
            for objects, folders in levels
            for path in _match_last_part([*objects] if is_last else folders, part)
        ]
    listing.warn_of_left_out()
    if not found:
        raise SourceError(f"{shown(url)} fits no object: correct the pattern")
    return [listing.url_of(path) for path in sorted(found)]


def list_around(url: str, options: StorageOptions | None = None) -> list[tuple[str, list[str]]]:
    """Return the URL and the contents of the folder that a pattern searches, and of the folder above it.

    The contents are names relative to the folder; names of subfolders end in a slash. If a subfolder is called ``metadata``,
    its contents are listed, too.

    Raises:
        SourceError: The store cannot be listed.
    """
    listing = _Listing(url, options)
    parts = listing.address.path.split("/")
    fixed = next(number for number, part in enumerate(parts) if has_magic(part))
    around = []
    for depth in range(fixed, max(fixed - 2, 0), -1):
        folder = "/".join(parts[:depth])
        names = [f"{path.rpartition('/')[2]}/" for path in listing.level(folder)[1]]
        if "metadata/" in names:
            inside = listing.level(f"{folder}/metadata")[0]
            names += [f"metadata/{path.rpartition('/')[2]}" for path in inside]
        around.append((listing.url_of(folder), names))
    return around


class _Listing:
    """Lists the objects of a store, without keys that the client, obstore, cannot parse.

    Args:
        url: URL of any object or prefix in the store.
        options: Options of the connection; by default those of a `Url`, else those of `configure`.
    """

    def __init__(self, url: str, options: StorageOptions | None) -> None:
        self._given, self._options = url, options_of(url, options)
        self.address = Address.of(url)
        self._connection = Connection(self.address, self._options)
        self._left_out: list[str] = []

    def url_of(self, path: str) -> str:
        """Return the URL of an object with the options of the connection, given its path in the store."""
        return Url(f"{self.address.scheme}://{self.address.root}/{path}", self._options)

    def below(self, prefix: str) -> Iterator[tuple[str, State]]:
        """Yield the path and the state of each object below a folder.

        Raises:
            SourceError: The store cannot be listed.
        """
        after = ""
        try:
            for path, state in self._pages(prefix, None):
                yield path, state
                after = path
        except _UnaddressableKeyError:
            yield from ((path, state) for path, state in self._walk(prefix) if path > after)

    def level(self, folder: str) -> tuple[dict[str, State], list[str]]:
        """Return the objects directly in a folder with their states, without those that mark folders, and its subfolders.

        Raises:
            SourceError: The store cannot be listed.
        """
        start = f"{folder}/" if folder else ""
        try:
            objects, folders = self._ask(lambda: self._connection.level(folder))
        except _UnaddressableKeyError as error:
            # A listing cannot skip a key, so another one starts after it: "0" follows "/" in the order of characters.
            behind = dict(self._pages(folder, f"{error.key.removesuffix('/')}0"))
            self._left_out.append(error.key)
            objects = {path: behind[path] for path in behind if "/" not in path[len(start) :]}
            inside = (path[len(start) :].partition("/")[0] for path in behind.keys() - objects)
            folders = sorted({f"{start}{name}" for name in inside})
        # Keys that begin with a slash give a folder without a name.
        self._left_out += [f"{path}/" for path in folders if not path]
        objects = {
            path: state
            for path, state in objects.items()
            if path.startswith(start) and not path.endswith(_MARKER)
        }
        return objects, [path for path in folders if path]

    def warn_of_left_out(self) -> None:
        """Warn with the number of keys that the client cannot parse, if there are any."""
        if self._left_out:
            warnings.warn(
                f"{counted(len(self._left_out), 'key')} of {shown(self._given)} cannot be read, and what lies below or beside them under names "
                f"that begin with one of ! # $ % & ' ( ) * + , - . is left out as well ({few_of(self._left_out)}): {RENAME}",
                stacklevel=4,
            )

    def _walk(self, folder: str) -> Iterator[tuple[str, State]]:
        objects, folders = self.level(folder)
        for path in sorted([*objects, *(f"{path}/" for path in folders)]):
            if path in objects:
                yield path, objects[path]
            else:
                yield from self._walk(path.removesuffix("/"))

    def _pages(self, prefix: str, after: str | None) -> Iterator[tuple[str, State]]:
        """Yield the path and the state of objects below a prefix, in the order of the store.

        After a transient error, listing continues after the last object.

        Args:
            prefix: The prefix.
            after: Only objects after this key are listed; None lists all.
        """
        pages = self._connection.states(prefix, after)

        def ask() -> list[tuple[str, State]]:
            nonlocal pages
            asked, pages = pages, self._connection.states(prefix, after)  # for the next attempt
            page = next(asked, [])
            pages = asked
            return page

        while page := self._ask(ask):
            # A marker of a folder is listed again after its own key, since the key has lost its slash.
            yield from (item for item in page if after is None or item[0] > after)
            after = page[-1][0]

    def _ask(self, action: Callable[[], T]) -> T:
        try:
            return attempt(action, self._given, self._options)
        except OSError as error:
            text = f"{shown(self._given)} cannot be listed: {error.strerror}"
            if error.filename is not None:
                raise _UnaddressableKeyError(text, error.filename) from None
            raise SourceError(text) from None


class _UnaddressableKeyError(SourceError):
    """A page of a listing has a key that the client cannot parse, so the whole page is lost.

    Attributes:
        key: The key.
    """

    def __init__(self, text: str, key: str) -> None:
        super().__init__(text)
        self.key = key


def _match_last_part(paths: list[str], pattern: str) -> list[str]:
    """Return the paths whose last part matches a pattern; as in a shell, wildcards do not match hidden names."""
    names = {path.rpartition("/")[2]: path for path in paths}
    if pattern in names:
        return [names[pattern]]
    hidden = pattern.startswith(".")
    return [
        path
        for name, path in names.items()
        if fnmatchcase(name, pattern) and (hidden or not name.startswith(".")) and OWN not in name
    ]
