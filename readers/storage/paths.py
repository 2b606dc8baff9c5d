"""Resolving paths, patterns and URLs to files and folders."""

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from readers.sample import SourceError
from readers.storage.atomic_file import OWN
from readers.storage.unreadable import OptionalFile, listed

if TYPE_CHECKING:
    from readers.storage.remote import StorageOptions

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_url(path: str) -> bool:
    """Whether this is no path of this machine."""
    return _URL.match(path) is not None


def shown_path(path: str) -> str:
    """For messages: a path, or a URL without what may be secret in it."""
    if not is_url(path):
        return path
    from readers.storage.remote.options import shown

    return shown(path)


def without_query(location: str) -> str:
    """Return a location without the query of an HTTP URL; in keys of stores and in files ``?`` is a character."""
    return location.partition("?")[0] if location[:4].lower() == "http" else location


def find_paths(text: str, storage: "StorageOptions | None") -> list[str]:
    """Return the paths that a path or pattern matches, sorted for each of its wildcards.

    URLs of folders stay as they are.

    Raises:
        SourceError: It fits no file, or its store cannot be listed.
    """
    if text.startswith("pipe:"):
        return [text]
    if storage and is_url(text):
        return [path for url in expand_braces(text) for path in _matched_away(url, storage)]
    if Path(text).exists():  # also a file that has braces or stars in its name
        return [text]
    return [path for name in expand_braces(text) for path in _matched(name)]


def has_wildcards(text: str) -> bool:
    """Whether a pattern stands for the files that exist, as stars do; braces stand for the same names everywhere."""
    if is_url(text):
        text = text.partition("://")[2] if text[:4].lower() != "http" else ""
    elif Path(text).exists():
        return False
    return has_magic(text)


def _matched(name: str) -> list[str]:
    if not has_magic(name) or Path(name).exists():
        return [name]
    found = sorted(_glob(name))
    found = [path for path in found if OWN not in Path(path).name]
    if not found:
        raise SourceError(f"{name} fits no file: correct the pattern")
    return found


def _glob(pattern: str) -> Iterator[str]:
    """Yield what `glob.glob` does, which takes a folder that cannot be listed for an empty one."""
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


def _matched_away(url: str, storage: "StorageOptions") -> list[str]:
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
    """Return the names that a pattern stands for, as WebDataset and bash expand braces; the last brace counts fastest.

    ``{000..099}`` counts, both ends included, with leading zeros if an end has them; ``{0..9..3}`` has a step; ``{a,b}``
    lists; braces nest. A backslash is a character like others, and a pattern whose braces do not pair stays as it is.
    """
    if "{" not in pattern:
        return [pattern]
    from braceexpand import braceexpand  # comes with webdataset

    try:
        return list(braceexpand(pattern, escape=False))
    except ValueError:  # UnbalancedBracesError, which the package's types lack
        return [pattern]


def with_path(location: str, change: Callable[[str], str]) -> str:
    """Return a location with another path; a URL keeps its query, such as a signature, and what it knows of how it is reached.

    Args:
        location: A path or a URL.
        change: Returns the new path, or URL without its query.
    """
    if not is_url(location):
        return change(location)
    path, mark, query = location.partition("?" if location[:4].lower() == "http" else "\0")
    return with_options_of(location, f"{change(path)}{mark}{query}")


def beside(location: str, name: str) -> str:
    """Return the path or URL of another file in the folder of a file; see `with_path`."""
    return with_path(location, lambda path: f"{path.rpartition('/')[0]}/{name}")


def with_options_of(url: str, changed: str) -> str:
    """A changed URL with what the first one knows of how it is reached; a path as it is."""
    if not is_url(url):
        return changed
    from readers.storage.remote import Url, options_of

    return Url(changed, options_of(url, None))


def leads_back(folder: Path) -> bool:
    """Whether a folder is a link to one that holds it, in which a walk would go round."""
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())
