"""Detect the format of files by their names, or by their first bytes if the names do not tell."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from readers.detect.registry import FORMATS, NUMBERED, Format, format_by_head, format_of
from readers.detect.splits import choose_split
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.paths import UrlFolder, is_url, without_query
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_head

NO_VIDEO = ".ts"
RENAME = "is not taken for a video, as .ts is also text in other languages: call it .mts"
_VIDEO_SUFFIXES = tuple(f".{name}" for name in VIDEO_FIELDS)
HEAD_BYTES = 16  # as `Format.begins` is promised

Options = Mapping[str, object]
NO_OPTIONS: Options = MappingProxyType({})


class Detected(NamedTuple):
    """The format of a source, and the paths to open.

    Attributes:
        format: Format of all paths.
        paths: Paths or URLs to pass to the format's class.
        options: Options to pass to the class, which follow from files around the source.
        is_indexed: Whether the paths were read from an index file.
    """

    format: Format
    paths: list[str]
    options: Options = NO_OPTIONS
    is_indexed: bool = False


def detect_files(paths: list[str], split: str | None, options: Options = NO_OPTIONS) -> Detected:
    """Return the format of files.

    Args:
        paths: Paths and URLs of the files.
        split: The requested split; None if the files have only one.
        options: The options that the caller passed; some of them determine the format.

    Raises:
        SourceError: The files are of an unknown format or of several formats, or belong to several splits.
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
    """Return whether the source is one file whose format stores splits in the file; else file names tell the split."""
    return len(paths) == 1 and _format_of_file(paths[0], paths, options).own_splits


def is_shard(name: str) -> bool:
    """Return whether a file name is that of a shard, which holds samples, unlike a list or manifest of images."""
    found = format_of(name)
    return found is not None and found.takes == "files" and name[0] != "."


def format_at(url: str) -> Format | None:
    """Return the format of a folder at a URL, judged by its index file; None if there is none, or another one.

    Raises:
        SourceError: It is unknown whether there is such a file.
    """
    kinds = (kind for kind in FORMATS.values() if kind.remote and kind.fits)
    return next((kind for kind in kinds if kind.ask("fits", UrlFolder(url))), None)


def is_video(name: str) -> bool:
    """Return whether a file is a video, judged by its name."""
    return name.lower().endswith(_VIDEO_SUFFIXES)


def _format_of_file(path: str, paths: list[str], options: Options) -> Format:
    """Return the format of one file.

    Args:
        path: Path or URL of the file.
        paths: Paths and URLs of all files of the source, including `path`.
        options: The options that the caller passed.

    Raises:
        SourceError: The file does not exist, is a folder, or is of an unknown format.
    """
    found = next((kind for kind in FORMATS.values() if path.startswith(kind.prefixes)), None)
    if found := found or format_of(without_query(path)):
        # `refine` opens the file, and there may be many thousand shards.
        looks = (found.takes == "file" or len(paths) == 1) and not is_url(path)
        refined = (
            found.ask("refine", Path(path), options) if looks and Path(path).is_file() else None
        )
        return FORMATS[refined] if refined else found
    if is_image_file(path):
        return _format_of_single("image")
    if is_url(path):
        # Only the first URL is read, as each read is a request; the others are taken to be of the same format.
        is_record = NUMBERED.search(path)
        found = format_by_head(_remote_head(paths[0])) if is_record else format_at(path)
    elif not Path(path).exists():
        # Such as the repo_id of lerobot and datasets.
        is_id = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", path) is not None
        hub = f" (on the Hugging Face Hub: hf://datasets/{path})" * is_id
        raise SourceError(
            f"{path} does not exist: give a folder, a list file, shards or a URL{hub}"
        )
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
    """Refuse a folder in an object store if its format can only be read from local files.

    Args:
        url: URL of the folder.
        names: Names of the objects below the folder, relative to it, with slashes.

    Raises:
        SourceError: The names are those of a format that can only be read from local files.
    """
    there = {part for name in names for part in (name, f"{name.partition('/')[0]}/")}
    for kind in FORMATS.values():
        if any(fnmatchcase(name, mark) for mark in kind.remote_marks for name in there):
            raise SourceError(
                f"{url} is laid out as {kind.title}, which is read from this machine's files: copy it here; its files alone "
                "hold also what was deleted or replaced"
            )
