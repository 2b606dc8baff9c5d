"""Which format a source has: told by names, by the contents of folders and, last, by first bytes."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from readers.formats.registry import FORMATS, NUMBERED, Format, format_of
from readers.formats.splits import (
    canonical,
    choose_split,
    folder_splits,
    in_order,
    no_such_split,
    several_splits,
    split_alone,
    split_of,
)
from readers.sample import VIDEO_FIELDS, SourceError, is_image_file
from readers.storage.paths import is_url
from readers.storage.unreadable import unreadable

MDS_INDEX = "index.json"
_METADATA = "metadata.jsonl"  # names the images beside it, as Hugging Face's image folders do
_PACKED = "manifest.json"  # of gpu-aug pack
_SAVED = "dataset_info.json"
_SAVED_SPLITS = "dataset_dict.json"
# Files that say what the folder around them is.
_MARKERS = {_SAVED: "arrow", _SAVED_SPLITS: "arrow", "data.mdb": "lmdb", MDS_INDEX: "mds"}
_VIDEO_SUFFIXES = tuple(f".{name}" for name in VIDEO_FIELDS)
_NO_VIDEO = ".ts"
_RENAME = "is not taken for a video, as .ts is also text in other languages: call it .mts"
_VIDEO_IN_LINE = re.compile(rf"\.({'|'.join(VIDEO_FIELDS)})(\s|$)", re.IGNORECASE)
# Cameras write IMG_1234.jpg.
FRAME = re.compile(r"(?:img|frame)[-_]?([0-9]{4,})\.[A-Za-z]+")
_HEAD_BYTES = 16
_MOST_LISTED = 10_000  # shards below a folder
_MOST_SHOWN = 5

Told = tuple[Format, list[str]]
"""A format, and the places that its class is given."""


def tell_kind(places: list[str], split: str | None) -> Told:
    """Tell the one format of files, or of what lies in a folder.

    Args:
        places: Paths and URLs, of files or of one local folder.
        split: Which split of it, None where there is but one.

    Raises:
        SourceError: They are of no known kind or of several, or hold several splits.
    """
    if len(places) == 1 and not is_url(places[0]) and Path(places[0]).is_dir():
        return _kind_of_folder(Path(places[0]), split)
    if split is not None:
        places = choose_split(places, split, "the list of files" if places[1:] else places[0])
    kinds = {place: _kind_of_file(place, places[0]) for place in places}
    if len({kind.name for kind in kinds.values()}) > 1:
        first = kinds[places[0]]
        place, other = next(item for item in kinds.items() if item[1] is not first)
        raise SourceError(
            f"a list must hold one format, got {places[0]} ({first.title}) and {place} ({other.title})"
        )
    return kinds[places[0]], places


def named_kind(format: str, places: list[str], split: str | None) -> Told:
    """Return the format that the caller named; of a folder the files that are of it are taken."""
    kind = FORMATS[format]
    if len(places) > 1 or is_url(places[0]) or not Path(places[0]).is_dir():
        return kind, places if split is None else choose_split(places, split, places[0])
    folder = Path(places[0])
    inside = sorted(path for path in folder.iterdir() if path.name[0] != ".")
    if kind.takes == "files":
        of_kind = [str(path) for path in inside if format_of(path.name) is kind]
        if not of_kind and kind.name == "tfrecord":
            of_kind = [str(path) for path in inside if _is_tfrecord(path)]
        if of_kind:
            return kind, choose_split(of_kind, split, str(folder))
    if split is None:
        return kind, places
    return kind, [str(_folder_of_split(folder, [path.name for path in inside], split))]


def is_shard(name: str) -> bool:
    """Whether a file in a folder is one of many of its format; lists and manifests lie beside images."""
    found = format_of(name)
    return found is not None and found.takes == "files" and name[0] != "."


def is_list(place: str) -> bool:
    """Whether a file lists others."""
    return format_of(place) is FORMATS["list"]


def is_video(name: str) -> bool:
    """Whether a file is a video by its name."""
    return name.lower().endswith(_VIDEO_SUFFIXES)


def _kind_of_file(place: str, first: str) -> Format:
    found = format_of(place.partition("?")[0] if is_url(place) else place)
    if place.startswith("pipe:"):
        return FORMATS["stream"]
    if place.rpartition("/")[2] == MDS_INDEX:
        return FORMATS["mds"]
    if found:
        return _kind_of_list(Path(place)) if found.name == "list" and not is_url(place) else found
    if is_image_file(place):
        return FORMATS["list"]
    if is_url(place):
        # The others are as the first: each look is a request.
        if NUMBERED.search(place) and _begins_like_tfrecord(first):
            return FORMATS["tfrecord"]
    else:
        if not Path(place).exists():
            raise SourceError(
                f"{place} does not exist: give a folder, a list file, shards or a URL"
            )
        if Path(place).is_dir():
            raise SourceError(
                f"{place} is a folder, and a list or a pattern names files: give the one folder that holds "
                "all of them, or open each and join them with readers.mix"
            )
        if is_video(place):
            return FORMATS["clip-list"]
        if place.lower().endswith(_NO_VIDEO):
            raise SourceError(f"{place} {_RENAME}")
        if _is_tfrecord(Path(place)):  # train-00000-of-01024
            return FORMATS["tfrecord"]
    suffixes = ", ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
    raise SourceError(
        f"{place} is of no known kind: give a folder, or files that end in {suffixes}"
    )


def _is_tfrecord(path: Path) -> bool:
    """Whether a local file begins like a TFRecord file."""
    from readers.formats.tfrecord import looks_like_tfrecord

    with suppress(OSError), path.open("rb") as file:
        return looks_like_tfrecord(file.read(_HEAD_BYTES))
    return False


def _begins_like_tfrecord(url: str) -> bool:
    from readers.formats.tfrecord import looks_like_tfrecord
    from readers.storage.remote import open_remote

    blob = open_remote(url)
    with unreadable(url):
        [head] = blob.read_exactly([(0, min(_HEAD_BYTES, blob.size_bytes))])
    return looks_like_tfrecord(bytes(head))


def _kind_of_folder(folder: Path, split: str | None) -> Told:
    """Tell what a folder holds, and which of its files, or which folder in it, are to be opened."""
    _, folders, files = next(os.walk(folder), ("", [], []))
    folders = sorted(name for name in folders if name[0] != ".")
    files = sorted(name for name in files if name[0] != ".")
    shards = sorted(name for name in files if is_shard(name))
    marker = next((name for name in _MARKERS if name in files), None)
    is_saved = "state.json" in files or any(name.endswith(".arrow") for name in shards)
    if marker == _SAVED and not is_saved:
        marker = None  # TensorFlow Datasets calls a file of its own so
    if marker:
        return _kind_by_marker(folder, marker, split)
    splits = folder_splits(folders)
    if splits:
        if split is None:
            names = in_order(splits.values())
            first = next(name for name in folders if splits.get(name) == names[0])
            raise SourceError(
                f"{several_splits(str(folder), names, f'the folder {folder / first}')}; where they are classes, "
                "say format='folder'"
            )
        return _kind_of_folder(_folder_of_split(folder, list(splits), split), None)
    if _METADATA in files and split is None:
        return FORMATS["manifest"], [str(folder / _METADATA)]
    if _PACKED in files:
        _require_finished(folder)
    others = sorted([name for name in files if is_image_file(name)] + folders)
    if shards and others and not all("=" in name for name in others):
        raise SourceError(
            f"{folder} holds shards ({shards[0]}) and {others[0]}: "
            "give the shards as a list or a pattern, or move them to a folder of their own"
        )
    if shards:
        places = choose_split([str(folder / name) for name in shards], split, str(folder))
        return tell_kind(places, None)
    if any("=" in name for name in folders) and next(folder.rglob("*.parquet"), None):
        return _kind_of_partitions(folder, split)
    return _kind_of_media(folder, folders, files, split)


def _kind_by_marker(folder: Path, marker: str, split: str | None) -> Told:
    if split is None:
        return FORMATS[_MARKERS[marker]], [str(folder)]
    if marker == _SAVED_SPLITS:
        names = [path.name for path in sorted(folder.iterdir()) if (path / "state.json").is_file()]
        wanted = split if split in names else canonical(split)
        if wanted not in names:
            raise SourceError(no_such_split(str(folder), split, in_order(names)))
        return FORMATS["arrow"], [str(folder / wanted)]
    if marker == _SAVED and not (folder / "state.json").is_file():
        found = sorted(path for path in folder.glob("*.arrow") if path.name[:6] != "cache-")
        return FORMATS["arrow"], choose_split(list(map(str, found)), split, str(folder))
    raise SourceError(no_such_split(str(folder), split, []))


def _kind_of_partitions(folder: Path, split: str | None) -> Told:
    """Folders such as ``label=3`` with Parquet files."""
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.parquet"))]
    chosen = choose_split([f"{folder}/{name}" for name in files], split, str(folder))
    return FORMATS["parquet"], [str(folder)] if split is None else chosen


def _kind_of_media(folder: Path, folders: list[str], files: list[str], split: str | None) -> Told:
    """Images, videos, frames; or lists and single files that lie where those may lie."""
    lists = _lists_of_splits(files)
    names = in_order(lists.values())
    if split is not None:
        wanted = [name for name in lists if lists[name] == canonical(split)]
        if len(wanted) == 1:
            return tell_kind([str(folder / wanted[0])], None)
    elif len(names) > 1:
        first = next(name for name in lists if lists[name] == names[0])
        raise SourceError(
            f"{several_splits(str(folder), names, f'the file {folder / first}')}; where {', '.join(lists)} say "
            "nothing of the images, say format='folder'"
        )
    first = _first_medium(folder)
    if not first:
        return _kind_without_media(folder, folders, files, split)
    if split is not None:
        return _kind_of_folder(_folder_of_split(folder, folders, split), None)
    if is_video(first):
        return FORMATS["video-folder"], [str(folder)]
    if first.lower().endswith(_NO_VIDEO):
        raise SourceError(f"{folder} holds no images and no videos; {first} {_RENAME}")
    return FORMATS["frame-folder" if _holds_frames(folder) else "folder"], [str(folder)]


def _kind_without_media(
    folder: Path, folders: list[str], files: list[str], split: str | None
) -> Told:
    found = [str(folder / name) for name in files if _is_tfrecord(folder / name)]
    if found:  # train-00000-of-01024
        return FORMATS["tfrecord"], choose_split(found, split, str(folder))
    if "data" in folders:  # as in repositories of the Hugging Face Hub
        return _kind_of_folder(folder / "data", split)
    known = [name for name in files if format_of(name) and not is_list(name)]
    shards = (str(path) for path in folder.rglob("*") if is_shard(path.name))
    below = sorted(islice(shards, _MOST_LISTED))
    if known:
        more = ", ..." if known[_MOST_SHOWN:] else ""
        raise SourceError(
            f"{folder} holds no images, but {', '.join(known[:_MOST_SHOWN])}{more}: give one of these files"
        )
    if below:
        choose_split(below, None, str(folder))  # which refuses several
        raise SourceError(
            f"{folder} holds no images, but shards in the folder {Path(below[0]).parent}: give that folder"
        )
    if split is not None:
        return _kind_of_folder(_folder_of_split(folder, folders, split), None)
    return FORMATS["folder"], [str(folder)]  # which says what may lie in one


def _folder_of_split(folder: Path, folders: Sequence[str], split: str) -> Path:
    """Return the one folder of a split.

    Raises:
        SourceError: There is none, or there are several.
    """
    told = {name: split_of(name) for name in folders if (folder / name).is_dir()}
    found = [name for name, one in told.items() if split == name or one == canonical(split)]
    if not found:
        names = in_order({one for one in told.values() if one})
        raise SourceError(no_such_split(str(folder), split, names))
    if len(found) > 1:
        raise SourceError(
            f"{folder} has several folders of the split {split!r} ({', '.join(found)}): give one of them"
        )
    return folder / found[0]


def _lists_of_splits(files: Sequence[str]) -> dict[str, str]:
    """Return the lists, manifests and tables that are called like splits: file -> split."""
    stems = {name.rpartition(".")[0] for name in files if is_image_file(name)}
    found = {}
    for name in files:
        kind, stem = format_of(name), name.partition(".")[0]
        if kind and kind.takes == "file" and stem not in stems:
            split = split_alone(stem)  # test_results.json may be anything
            if split:
                found[name] = split
    return found


def _require_finished(folder: Path) -> None:
    """Refuse the shards of a pack that was stopped: they are a part of the data."""
    with suppress(OSError, ValueError):
        manifest = json.loads((folder / _PACKED).read_bytes())
        if isinstance(manifest, dict) and manifest.get("complete") is False:
            raise SourceError(
                f"{folder} was not packed to its end: run the same gpu-aug pack again, or give the shards "
                "that are there as a pattern"
            )


def _first_medium(folder: Path) -> str:
    """Return the first image or video below a folder; a .ts where there is none, else ""."""
    other = ""
    for _, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(name for name in files if name[0] != "."):
            if is_video(name) or is_image_file(name):
                return name
            if name.lower().endswith(_NO_VIDEO):
                other = other or name
    return other


def _holds_frames(folder: Path) -> bool:
    """Whether the first folder two levels below holds frames of a video, by their names."""
    for place, folders, files in os.walk(folder):
        names = [name for name in files if name[0] != "." and is_image_file(name)]
        depth = len(Path(place).relative_to(folder).parts)
        if names or depth == 2:
            return depth == 2 and _are_frames(names, place)
        folders[:] = sorted(name for name in folders if name[0] != ".")[:1]
    return False


def _are_frames(names: list[str], folder: str) -> bool:
    """Whether pictures are called like frames, and numbered from 0 or 1 on without gaps.

    Raises:
        SourceError: They are but for a few numbers that are missing.
    """
    found = [FRAME.fullmatch(name) for name in names]
    numbers = sorted({int(one[1]) for one in found if one})
    if len(numbers) < max(2, len(names)):
        return False
    there, span = {*numbers}, range(min(numbers[0], 1), numbers[-1] + 1)
    if numbers[0] > 2 or 2 * len(numbers) <= len(span):
        return False
    missing = [number for number in span if number not in there]
    if missing:
        which = ", ".join(map(str, missing[:_MOST_SHOWN]))
        which += ", ..." if missing[_MOST_SHOWN:] else ""
        raise SourceError(
            f"{folder} holds pictures that are called like frames of a video, but number {which} is missing: "
            "say format='frame-folder' to read videos without it, or format='folder' to read images of classes"
        )
    return True


def _kind_of_list(path: Path) -> Format:
    """Tell what a list names by the first line that says something."""
    from readers.video.files import is_header

    first = ""
    with suppress(OSError, UnicodeDecodeError), path.open(encoding="utf-8-sig") as file:
        stripped = (line.strip() for line in file)
        lines = (line for line in stripped if line and not line.startswith("#"))
        first = next(lines, "")
        first = (next(lines, "") if is_header(first) else "") or first
    if _VIDEO_IN_LINE.search(first):
        return FORMATS["clip-list"]
    named = (first, first.rpartition(" ")[0], first.rpartition(" ")[0].rpartition(" ")[0])
    is_folder = any(os.path.isdir(path.parent / name) for name in named if name)  # noqa: PTH112 - long names, too
    return FORMATS["frame-folder" if is_folder else "list"]
