"""Detect the format of files by their names and, last, by their first bytes."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from readers.detect.registry import FORMATS, NUMBERED, Format, format_of
from readers.detect.splits import choose_split
from readers.formats.path_table.detect import is_path_table, is_table_of_tsv, kind_of_csv
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.paths import is_url, without_query
from readers.storage.unreadable import oserror_as_source_error
from readers.storage.whole_files import read_head

MDS_INDEX = "index.json"
NO_VIDEO = ".ts"
RENAME = "is not taken for a video, as .ts is also text in other languages: call it .mts"
_VIDEO_SUFFIXES = tuple(f".{name}" for name in VIDEO_FIELDS)
_VIDEO_IN_LINE = re.compile(rf"\.({'|'.join(VIDEO_FIELDS)})(\s|$)", re.IGNORECASE)
_HEAD_BYTES = 16
_LIST_BYTES = 1 << 16  # of a list, whose first lines tell what it names
_MOST_LEVELS = 8  # of folders between a table and its files


class Detected(NamedTuple):
    """The format of a source and its paths.

    Attributes:
        format: Format of all of it.
        paths: Paths or URLs that the format's class is given.
        options: Options of the class that follow from the files around the source.
    """

    format: Format
    paths: list[str]
    options: Mapping[str, object] = MappingProxyType({})


def detect_files(paths: list[str], split: str | None) -> Detected:
    """Return the format of files.

    Args:
        paths: Paths and URLs.
        split: The split to take; None if there is only one.

    Raises:
        SourceError: They are of no known format or of several, or hold several splits.
    """
    if split is not None and not _have_own_splits(paths):
        paths = choose_split(paths, split, "the list of files" if paths[1:] else paths[0])
    kinds = {path: _format_of_file(path, paths[0]) for path in paths}
    if len({kind.name for kind in kinds.values()}) > 1:
        first = kinds[paths[0]]
        path, other = next(item for item in kinds.items() if item[1] is not first)
        raise SourceError(
            f"a list must hold one format, got {paths[0]} ({first.title}) and {path} ({other.title})"
        )
    return Detected(kinds[paths[0]], paths)


def _have_own_splits(paths: list[str]) -> bool:
    """Return whether the files themselves say what a split is; else their names do."""
    first = paths[0]
    if len(paths) == 1 and not is_url(first):
        return _format_of_file(first, first).own_splits or is_path_table(first, {})
    named = format_of(first)
    return named is not None and named.own_splits and named.name != "csv"


def is_shard(name: str) -> bool:
    """Return whether a file in a folder is one of several of its format, unlike a list or manifest beside images."""
    found = format_of(name)
    return found is not None and found.takes == "files" and name[0] != "."


def is_list(path: str) -> bool:
    """Return whether a file lists others."""
    return format_of(path) is FORMATS["list"]


def is_video(name: str) -> bool:
    """Return whether a file is a video, judged by its name."""
    return name.lower().endswith(_VIDEO_SUFFIXES)


def _format_of_file(path: str, first: str) -> Format:
    found = format_of(without_query(path))
    if path.startswith("pipe:"):
        return FORMATS["stream"]
    if path.rpartition("/")[2] == MDS_INDEX:
        return FORMATS["mds"]
    if (
        path.lower().endswith(".csv")
        and not is_url(path)
        and FORMATS["openimages"].recognises(Path(path))
    ):
        return FORMATS["openimages"]
    if found:
        return found if is_url(path) else _refined(found, Path(path))
    if is_image_file(path):
        return FORMATS["list"]
    if is_url(path):
        # The others are as the first: each look is a request.
        if NUMBERED.search(path) and _begins_like_tfrecord(first):
            return FORMATS["tfrecord"]
    else:
        if not Path(path).exists():
            raise SourceError(f"{path} does not exist: give a folder, a list file, shards or a URL")
        if Path(path).is_dir():
            raise SourceError(
                f"{path} is a folder, and a list or a pattern names files: give the one folder that holds "
                "all of them, or open each and join them with readers.mix"
            )
        if is_video(path):
            return FORMATS["clip-list"]
        if path.lower().endswith(NO_VIDEO):
            raise SourceError(f"{path} {RENAME}")
        if is_tfrecord(Path(path)):  # train-00000-of-01024
            return FORMATS["tfrecord"]
    suffixes = ", ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
    raise SourceError(f"{path} is of no known kind: give a folder, or files that end in {suffixes}")


def is_tfrecord(path: Path) -> bool:
    """Return whether a local file begins like a TFRecord file."""
    from readers.formats.tfrecord.dataset import looks_like_tfrecord

    return looks_like_tfrecord(read_head(path, _HEAD_BYTES))


def _begins_like_tfrecord(url: str) -> bool:
    from readers.formats.tfrecord.dataset import looks_like_tfrecord
    from readers.storage.remote import open_remote

    blob = open_remote(url)
    with oserror_as_source_error(url):
        [head] = blob.read_exactly([(0, min(_HEAD_BYTES, blob.size_bytes))])
    return looks_like_tfrecord(bytes(head))


def _refined(found: Format, path: Path) -> Format:
    """Distinguish formats that share a suffix by their first rows or columns."""
    if found.name == "csv" and path.is_file():
        return FORMATS[kind_of_csv(path)]
    if path.suffix.lower() == ".tsv" and path.is_file() and is_table_of_tsv(path):
        return FORMATS["csv"]
    return _format_of_list(path) if found.name == "list" else found


def _format_of_list(path: Path) -> Format:
    """Return the format of a list, judged by its first line that is neither empty nor a comment."""
    from readers.video.files import is_header

    stripped = map(
        str.strip, read_head(path, _LIST_BYTES).decode("utf-8-sig", "replace").split("\n")
    )
    lines = (line for line in stripped if line and not line.startswith("#"))
    first = next(lines, "")
    first = (next(lines, "") if is_header(first) else "") or first
    if _VIDEO_IN_LINE.search(first):
        return FORMATS["clip-list"]
    named = (first, first.rpartition(" ")[0], first.rpartition(" ")[0].rpartition(" ")[0])
    is_folder = any(os.path.isdir(path.parent / name) for name in named if name)  # noqa: PTH112 - long names, too
    return FORMATS["frame-folder" if is_folder else "list"]


def refuse_parts_of_tables(paths: Iterable[str]) -> None:
    """Refuse Parquet files that belong to a Delta or Iceberg table, whose files also hold deleted and replaced rows.

    Raises:
        SourceError: One of them does.
    """
    known: dict[Path, str | None] = {}
    for path in paths:
        for above in [*Path(path).parents][:_MOST_LEVELS]:
            if above not in known:
                known[above] = (
                    "Delta" if is_delta(above) else "Iceberg" if is_iceberg(above) else None
                )
            table = known[above]
            if table:
                raise SourceError(
                    f"{path} belongs to the {table} table {above}, whose files also hold rows that were "
                    f"deleted or replaced: open the table, open_dataset({str(above)!r})"
                )


def refuse_remote_table(url: str, names: Iterable[str]) -> None:
    """Refuse a folder in an object store that is a table, or a dataset of Lance or Energon.

    Args:
        url: Its URL.
        names: Of objects and folders in it, with slashes, relative to it.

    Raises:
        SourceError: It is one.
    """
    there = {part for name in names for part in (name, f"{name.partition('/')[0]}/")}
    is_iceberg = any(
        name.startswith("metadata/") and name.endswith(".metadata.json") for name in there
    )
    marks = {
        "_delta_log/": "a Delta table",
        "_versions/": "a Lance dataset",
        ".nv-meta/": "a dataset of Energon",
    }
    found = [title for mark, title in marks.items() if mark in there]
    found += ["an Iceberg table"] if is_iceberg else []
    if found:
        raise SourceError(
            f"{url} is {found[0]}, which is read from this machine's files: copy it here; its files alone hold also what "
            "was deleted or replaced"
        )


def is_lance(folder: Path) -> bool:
    """Return whether a folder holds the versions of a Lance dataset."""
    return (folder / "_versions").is_dir() and (
        (folder / "data").is_dir() or folder.suffix == ".lance"
    )


def is_delta(folder: Path) -> bool:
    """Return whether a folder holds the log of a Delta table."""
    return (folder / "_delta_log").is_dir()


def is_iceberg(folder: Path) -> bool:
    """Return whether a folder holds the metadata of an Iceberg table."""
    inside = folder / "metadata"
    return inside.is_dir() and next(inside.glob("*.metadata.json"), None) is not None


def is_energon(folder: Path) -> bool:
    """Return whether a folder was prepared by Energon."""
    inside = folder / ".nv-meta"
    return any((inside / name).is_file() for name in (".info.json", ".info.yaml"))
