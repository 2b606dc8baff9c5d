"""Listing the objects in a store: all below a prefix, or all that match a pattern."""

import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from glob import has_magic

from readers.sample import SourceError
from readers.storage.atomic_file import OWN
from readers.storage.remote.options import (
    BUCKETS,
    Address,
    StorageOptions,
    Url,
    options_of,
    shown,
)
from readers.storage.remote.requests import Connection, State, attempt


def list_remote(url: str, options: StorageOptions | None = None, *, own: bool = False) -> list[str]:
    """The URLs of all objects below a prefix (``s3://bucket/folder``), sorted.

    Args:
        url: The prefix.
        options: How the store is reached.
        own: Whether our own files beside the data are among them.

    Raises:
        SourceError: There are none, the store cannot be listed, or as for `open_remote`.
    """
    options = options_of(url, options)
    address = Address.of(url)
    if address.scheme not in BUCKETS:
        raise SourceError(
            f"{shown(url)} is a folder on an HTTP server, which cannot be listed: name its files, or "
            "give a pattern such as train-{000..099}.tar"
        )
    connection = Connection(address, options)
    prefix = address.path.rstrip("/")
    deadline = time.monotonic() + options.deadline_seconds
    try:
        paths = attempt(lambda: connection.paths(prefix), url, options, deadline)
    except OSError as error:
        raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
    paths = [path for path in paths if own or OWN not in path[len(prefix) :]]
    if not paths:
        raise SourceError(f"{shown(url)} holds no objects: correct the bucket or the folder")
    return [Url(f"{address.scheme}://{address.root}/{path}", options) for path in sorted(paths)]


def states_below(url: str, options: StorageOptions | None = None) -> Iterator[tuple[str, State]]:
    """Yield the URL and the state of each object below a prefix, as the store lists them: in the order of their names.

    The empty objects with which some tools mark folders are among them, without the slash at their end.

    Raises:
        SourceError: The store cannot be listed.
    """
    options = options_of(url, options)
    address = Address.of(url)
    connection, prefix = Connection(address, options), address.path.rstrip("/")
    after, pages = "", connection.states(prefix, None)

    def ask() -> list[tuple[str, State]]:
        nonlocal pages
        asked, pages = pages, connection.states(prefix, after or None)  # for the next attempt
        page = next(asked, [])
        pages = asked
        return page

    while True:
        deadline = time.monotonic() + options.deadline_seconds
        try:
            page = attempt(ask, url, options, deadline)
        except OSError as error:
            raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
        if not page:
            return
        for path, state in page:
            if path > after:  # a folder's marker is listed behind itself, since its slash is gone
                yield Url(f"{address.scheme}://{address.root}/{path}", options), state
        after = page[-1][0]


def match_remote(url: str, options: StorageOptions | None = None) -> list[str]:
    """The URLs of the objects that a pattern fits (``s3://bucket/*/train-*.tar``), sorted.

    ``*``, ``?`` and ``[...]`` stand for characters other than a slash, as in a shell; each folder that may fit is
    listed by a request of its own. An object of just this name comes before all others.

    Raises:
        SourceError: There are none, the store cannot be listed, or as for `open_remote`.
    """
    options = options_of(url, options)
    address = Address.of(url)
    connection = Connection(address, options)
    parts = address.path.split("/")
    fixed = next(number for number, part in enumerate(parts) if has_magic(part))
    found = ["/".join(parts[:fixed])]
    deadline = time.monotonic() + options.deadline_seconds
    for number, part in enumerate(parts[fixed:], start=fixed):
        is_last = number == len(parts) - 1
        try:
            levels = [
                attempt(
                    partial(connection.level, folder, folders=not is_last), url, options, deadline
                )
                for folder in found
            ]
        except OSError as error:
            raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
        found = [path for level in levels for path in _fitting(level, part)]
    if not found:
        raise SourceError(f"{shown(url)} fits no object: correct the pattern")
    return [Url(f"{address.scheme}://{address.root}/{path}", options) for path in sorted(found)]


def list_around(url: str, options: StorageOptions | None = None) -> list[tuple[str, list[str]]]:
    """What lies in the folder before a pattern, and in the one above it: URL, and names relative to it.

    Folders end in a slash, and of a folder ``metadata`` the contents are listed, too.

    Raises:
        SourceError: The store cannot be listed.
    """
    options = options_of(url, options)
    address = Address.of(url)
    connection = Connection(address, options)
    parts = address.path.split("/")
    fixed = next(number for number, part in enumerate(parts) if has_magic(part))
    deadline = time.monotonic() + options.deadline_seconds

    def level(folder: str, folders: bool) -> list[str]:
        try:
            ask = partial(connection.level, folder, folders=folders)
            found = attempt(ask, url, options, deadline)
        except OSError as error:
            raise SourceError(f"{shown(url)} cannot be listed: {error.strerror}") from None
        return [path.rpartition("/")[2] for path in found]

    around = []
    for depth in range(fixed, max(fixed - 2, 0), -1):
        folder = "/".join(parts[:depth])
        names = [f"{name}/" for name in level(folder, True)]
        if "metadata/" in names:
            names += [f"metadata/{name}" for name in level(f"{folder}/metadata", False)]
        around.append((f"{address.scheme}://{address.root}/{folder}", names))
    return around


def _fitting(paths: list[str], pattern: str) -> list[str]:
    """Return the paths whose last part a pattern fits; like those of a shell it fits no hidden ones."""
    names = {path.rpartition("/")[2]: path for path in paths}
    if pattern in names:
        return [names[pattern]]
    hidden = pattern.startswith(".")
    return [
        path
        for name, path in names.items()
        if fnmatchcase(name, pattern) and (hidden or not name.startswith(".")) and OWN not in name
    ]
