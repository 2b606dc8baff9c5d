"""Resolve paths, patterns and URLs to files and folders."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from readers.sample import SourceError
from readers.storage.atomic_file import OWN
from readers.storage.unreadable import OptionalFile, listed

if TYPE_CHECKING:
    from readers.storage.remote import StorageOptions

_MOST_NAMES = 1_000_000
"""Names that braces may stand for: more than any dataset has files of samples, and few enough for memory."""
_RANGE = re.compile(r"\{(-?\d+)\.\.(-?\d+)(?:\.\.-?\d+)?\}")
"""A range of numbers within braces, with or without a step."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""Matches the scheme of a URL (RFC 3986) at the beginning; a path with ``://`` further on is not a URL."""


def is_url(path: str) -> bool:
    """Return whether a location is a URL rather than a local path."""
    return _URL.match(path) is not None


def shown_path(path: str) -> str:
    """Return a path or URL in the form for messages: a URL without password and signature."""
    if not is_url(path):
        return path
    from readers.storage.remote.options import shown

    return shown(path)


def without_query(location: str) -> str:
    """Return an HTTP URL without its query; other URLs and paths unchanged, as ``?`` may be part of their names."""
    return location.partition("?")[0] if location[:4].lower() == "http" else location


def find_paths(text: str, storage: "StorageOptions | None") -> list[str]:
    """Return the paths or URLs that a path, URL or pattern matches; the matches of a wildcard are sorted.

    Paths and URLs without wildcards, such as those of folders, are returned unchanged.

    Args:
        text: The path, URL or pattern.
        storage: Options of remote storage; None if no URL is expected.

    Raises:
        SourceError: A pattern matches no file, or its store cannot be listed.
    """
    if text.startswith("pipe:"):
        return [text]
    if storage and is_url(text):
        return [path for url in expand_braces(text) for path in _match_remote(url, storage)]
    if Path(text).exists():  # a file name may hold braces and stars
        return [text]
    return [path for name in expand_braces(text) for path in _match_local(name)]


def has_wildcards(text: str) -> bool:
    """Return whether a path or URL has wildcards (``*``, ``?``, ``[...]``), whose matches depend on the existing files."""
    if is_url(text):
        text = text.partition("://")[2] if text[:4].lower() != "http" else ""
    elif Path(text).exists():
        return False
    return has_magic(text)


def _match_local(name: str) -> list[str]:
    if not has_magic(name) or Path(name).exists():
        return [name]
    found = sorted(_glob(name))
    found = [path for path in found if OWN not in Path(path).name]
    if not found:
        raise SourceError(f"{name} fits no file: correct the pattern")
    return found


def _glob(pattern: str) -> Iterator[str]:
    """Yield the paths that match a pattern, as `glob.glob` does, which however ignores folders that cannot be listed.

    Raises:
        SourceError: A folder cannot be listed.
    """
    folder, name = os.path.split(pattern)
    for around in _glob(folder) if has_magic(folder) else [folder]:
        if not has_magic(name):
            path = os.path.join(around, name)  # noqa: PTH118 - a Path would lose "./"
            with OptionalFile(path):
                os.lstat(path)
                yield path
            continue
        for one in [name for names in listed(Path(around)) for name in names]:
            if fnmatchcase(one, name) and (name[0] == "." or one[0] != "."):
                yield os.path.join(around, one)  # noqa: PTH118 - as above


def _match_remote(url: str, storage: "StorageOptions") -> list[str]:
    from readers.storage.remote import Url, match_remote

    scheme, _, rest = url.partition("://")
    path = rest.partition("/")[2]
    if scheme.lower() in ("http", "https"):
        if "*" in without_query(url):
            raise SourceError(
                f"{without_query(url)} is a pattern on an HTTP server, which cannot be listed: name its files, or "
                "give a pattern that counts, such as train-{000..099}.tar"
            )
        return [Url(url, storage)]
    return match_remote(url, storage) if has_magic(path) else [Url(url, storage)]


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern with braces stands for, as in WebDataset and bash; the last brace varies fastest.

    ``{000..099}`` counts, including both ends, with leading zeros if an end has them; ``{0..9..3}`` counts in steps;
    ``{a,b}`` lists; braces may be nested. A backslash is an ordinary character. A pattern with unbalanced braces is returned
    unchanged.

    Raises:
        SourceError: The pattern stands for more than a million names.
    """
    if "{" not in pattern:
        return [pattern]
    from braceexpand import braceexpand  # comes with webdataset

    # braceexpand lists each range before it yields the first name.
    ends = (map(int, match.groups()) for match in _RANGE.finditer(pattern))
    names: list[str] = []
    try:
        if all(abs(last - first) < _MOST_NAMES for first, last in ends):
            names = list(islice(braceexpand(pattern, escape=False), _MOST_NAMES + 1))
    except ValueError:  # UnbalancedBracesError, which the package's types lack
        return [pattern]
    if not 0 < len(names) <= _MOST_NAMES:
        raise SourceError(
            f"{pattern} stands for more than {_MOST_NAMES:,} files: correct the numbers in its braces"
        )
    return names


def with_path(location: str, change: Callable[[str], str]) -> str:
    """Return a location with a changed path; a URL keeps its query, such as a signature, and the options of its connection.

    Args:
        location: A path or a URL.
        change: Returns the new path, given the old one; of a URL, it gets all but the query.
    """
    if not is_url(location):
        return change(location)
    path, mark, query = location.partition("?" if location[:4].lower() == "http" else "\0")
    return with_options_of(location, f"{change(path)}{mark}{query}")


def beside(location: str, name: str) -> str:
    """Return the path or URL of the file `name` in the folder of another file, `location`; see `with_path`."""
    return with_path(location, lambda path: f"{path.rpartition('/')[0]}/{name}")


def with_options_of(url: str, changed: str) -> str:
    """Return the URL `changed` with the connection options of `url`; if `url` is a path, return `changed` as it is."""
    if not is_url(url):
        return changed
    from readers.storage.remote import Url, options_of

    return Url(changed, options_of(url, None))


@dataclass(frozen=True)
class UrlFolder:
    """A folder at a URL; as with a `Path`, ``folder / name`` is the location of a file in it.

    Attributes:
        url: URL of the folder, with or without a slash at its end.
    """

    url: str

    def __truediv__(self, name: str) -> str:
        """Return the URL of a file in the folder, with the query and the options of the folder's URL."""
        name = quote(name) if self.url[:4].lower() == "http" else name
        return with_path(self.url, lambda path: f"{path.rstrip('/')}/{name}")

    def __str__(self) -> str:
        """Return the URL in the form for messages."""
        return shown_path(self.url)


def leads_back(folder: Path) -> bool:
    """Return whether a folder is a symbolic link to one of its parents, so that a recursive walk would never end."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())
