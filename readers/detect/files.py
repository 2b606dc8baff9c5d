"""Detect the format of files by their names and, last, by their first bytes."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from readers.detect.registry import FORMATS, NUMBERED, Format, format_by_head, format_of
from readers.detect.splits import choose_split
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.paths import is_url, without_query
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_head

NO_VIDEO = ".ts"
RENAME = "is not taken for a video, as .ts is also text in other languages: call it .mts"
_VIDEO_SUFFIXES = tuple(f".{name}" for name in VIDEO_FIELDS)
HEAD_BYTES = 16  # as `Format.begins` is promised

Options = Mapping[str, object]
NO_OPTIONS: Options = MappingProxyType({})


class Detected(NamedTuple):
    """The format of a source and its paths.

    Attributes:
        format: Format of all of it.
        paths: Paths or URLs that the format's class is given.
        options: Options of the class that follow from the files around the source.
        is_indexed: Whether an index file names the paths.
    """

    format: Format
    paths: list[str]
    options: Options = NO_OPTIONS
    is_indexed: bool = False


def detect_files(paths: list[str], split: str | None, options: Options = NO_OPTIONS) -> Detected:
    """Return the format of files.

    Args:
        paths: Paths and URLs.
        split: The split to take; None if there is only one.
        options: Those of the caller, which may tell what a file holds.

    Raises:
        SourceError: They are of no known format or of several, or hold several splits.
    """
    if split is not None and not _has_own_splits(paths, options):
        paths = choose_split(paths, split, "the list of files" if paths[1:] else paths[0])
    kinds = {path: _format_of_file(path, paths, options) for path in paths}
    if len({kind.name for kind in kinds.values()}) > 1:
        first = kinds[paths[0]]
        path, other = next(item for item in kinds.items() if item[1] is not first)
        raise SourceError(
            f"a list must hold one format, got {paths[0]} ({first.title}) and {path} ({other.title})"
        )
    return Detected(kinds[paths[0]], paths)


def _has_own_splits(paths: list[str], options: Options) -> bool:
    """Return whether one local file says itself what a split is; else the names of the files do."""
    is_one = len(paths) == 1 and not is_url(paths[0])
    return is_one and _format_of_file(paths[0], paths, options).own_splits


def is_shard(name: str) -> bool:
    """Return whether a file in a folder is one of several of its format, unlike a list or manifest beside images."""
    found = format_of(name)
    return found is not None and found.takes == "files" and name[0] != "."


def is_video(name: str) -> bool:
    """Return whether a file is a video, judged by its name."""
    return name.lower().endswith(_VIDEO_SUFFIXES)


def _format_of_file(path: str, paths: list[str], options: Options) -> Format:
    """Return the format of one of several files."""
    found = next((kind for kind in FORMATS.values() if path.startswith(kind.prefixes)), None)
    if found := found or format_of(without_query(path)):
        # Each look opens a file, and there may be many thousand shards.
        looks = (found.takes == "file" or len(paths) == 1) and not is_url(path)
        refined = (
            found.ask("refine", Path(path), options) if looks and Path(path).is_file() else None
        )
        return FORMATS[refined] if refined else found
    if is_image_file(path):
        return _format_of_single("image")
    if is_url(path):
        # The others are as the first: each look is a request.
        found = format_by_head(_remote_head(paths[0])) if NUMBERED.search(path) else None
    elif not Path(path).exists():
        raise SourceError(f"{path} does not exist: give a folder, a list file, shards or a URL")
    elif Path(path).is_dir():
        raise SourceError(
            f"{path} is a folder, and a list or a pattern names files: give the one folder that holds "
            "all of them, or open each and join them with readers.mix"
        )
    elif is_video(path):
        return _format_of_single("video")
    elif path.lower().endswith(NO_VIDEO):
        raise SourceError(f"{path} {RENAME}")
    else:
        found = format_by_head(read_head(Path(path), HEAD_BYTES))  # train-00000-of-01024
    if found:
        return found
    suffixes = ", ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
    raise SourceError(f"{path} is of no known kind: give a folder, or files that end in {suffixes}")


def _format_of_single(medium: str) -> Format:
    return next(kind for kind in FORMATS.values() if kind.single_files == medium)


def _remote_head(url: str) -> bytes:
    from readers.storage.remote import open_remote

    blob = open_remote(url)
    with oserror_as_source_error(url):
        [head] = blob.read_exactly([(0, min(HEAD_BYTES, blob.size_bytes))])
    return bytes(head)


def refuse_remote_folder(url: str, names: Iterable[str]) -> None:
    """Refuse a folder in an object store of a format that is read from local files only.

    Args:
        url: Its URL.
        names: Of objects and folders in it, with slashes, relative to it.

    Raises:
        SourceError: It is one.
    """
    there = {part for name in names for part in (name, f"{name.partition('/')[0]}/")}
    for kind in FORMATS.values():
        if any(fnmatchcase(name, mark) for mark in kind.remote_marks for name in there):
            raise SourceError(
                f"{url} is laid out as {kind.title}, which is read from this machine's files: copy it here; its files alone "
                "hold also what was deleted or replaced"
            )
