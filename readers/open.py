"""Opening a dataset without saying of which kind it is."""

import inspect
import itertools
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from readers.dataset import IndexedDataset
from readers.formats import FORMATS, Format, FormatName, format_of
from readers.sample import VIDEO_FIELDS, PathLike, SourceError, is_image_file

if TYPE_CHECKING:
    from readers.remote import StorageOptions
    from readers.stream import TarStream

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_MDS_INDEX = "index.json"
_METADATA = "metadata.jsonl"  # names the images beside it, as Hugging Face's image folders do
_PACKED = "manifest.json"  # of gpu-aug pack
# Files that say what the folder around them is.
_MARKERS = {
    "dataset_info.json": "arrow",
    "dataset_dict.json": "arrow",
    "data.mdb": "lmdb",
    _MDS_INDEX: "mds",
}
_VIDEO_SUFFIXES = tuple(f".{name}" for name in VIDEO_FIELDS)
_NO_VIDEO = ".ts"
_RENAME = "is not taken for a video, as .ts is also text in other languages: call it .mts"
_VIDEO_IN_LINE = re.compile(rf"\.({'|'.join(VIDEO_FIELDS)})(\s|$)", re.IGNORECASE)
# Cameras write IMG_1234.jpg.
_FRAME = re.compile(r"(?:img|frame)[-_]?([0-9]{4,})\.[A-Za-z]+")


@overload
def open_dataset(
    source: PathLike | Sequence[PathLike], *, format: FormatName | None = None, **options: object
) -> IndexedDataset: ...
@overload
def open_dataset(
    source: PathLike | Sequence[PathLike], *, format: Literal["stream"], **options: object
) -> "TarStream": ...
def open_dataset(
    source: PathLike | Sequence[PathLike], *, format: str | None = None, **options: object
) -> "IndexedDataset | TarStream":
    """Open whatever there is.

    Args:
        source: One of
            a folder: of images or class folders, of videos, of files of one format (.tar, .parquet,
            .tfrecord, ...; sorted by name), or one that a library wrote (LMDB, MDS, Hugging Face); also
            ``<class>/<video>/`` with frames called ``img_00001.jpg`` or ``frame_00001.jpg``, while other
            frames look like images of a class: say ``format="frame-folder"``,
            a file of any format in `readers.formats.FORMATS`, among them lists of images, of videos and
            their clips, and of folders of frames,
            a pattern with braces or wildcards, such as ``train-{000000..000099}.tar`` or ``*.parquet``,
            a video,
            a URL of such files or of a folder with them: ``s3://``, ``gs://``, ``http://``, ``https://``,
            a sequence of files or patterns of one format, of image files, or of videos.
        format: Name of the format, where name and content of the source do not tell it. "stream" reads
            tars forward only, which is all that compressed ones, pipes and some servers allow.
        options: Of the format's class, such as ``image="photo"`` to name a column; for URLs also those of
            `readers.remote.StorageOptions`, such as ``cache_bytes=0``.

    Raises:
        SourceError: It is missing, empty, of no known kind, or has no such option.
    """
    if format is not None and format not in FORMATS:
        raise SourceError(f"format={format!r} is not known: give one of {', '.join(FORMATS)}")
    many = not isinstance(source, (str, os.PathLike))
    items = [source] if isinstance(source, (str, os.PathLike)) else source
    try:
        names = [os.fspath(item) for item in items]
    except TypeError:
        raise SourceError(
            f"source={source!r} is no path: give a path, a pattern, a URL, or a list of them"
        ) from None
    storage = _storage_options(options) if any(map(_is_url, names)) else None
    places = [place for name in names for place in _places(name, storage)]
    if not places:
        raise SourceError("the list of sources is empty: give paths of shards or of images")
    kind = _named(format, places) if format else _kind(places)
    if kind.name == "stream" and format is None:
        raise SourceError(
            f"{places[0]} can only be read forward: decompress it or make shards of it "
            "(gpu-aug pack), or iterate over open_dataset(..., format='stream')"
        )
    return _made(kind, places, many or len(places) > 1, options)


def _made(
    kind: Format, places: list[str], many: bool, options: dict[str, object]
) -> "IndexedDataset | TarStream":
    away = next((place for place in places if _is_url(place)), None)
    if away and not kind.remote:
        raise SourceError(
            f"{away} lies elsewhere, and {kind.title} is read from this machine's files: copy it here, "
            "or make .tar or .parquet shards of it (gpu-aug pack)"
        )
    reader = kind.load()
    allowed = list(inspect.signature(reader).parameters)[1:]
    unknown = [name for name in options if name not in allowed]
    if away:
        allowed += _storage_names()
    if unknown:
        raise SourceError(
            f"{kind.title} has no option {unknown[0]!r}: it has {', '.join(allowed) or 'none'}"
        )
    if kind.name == "list" and (many or not _is_list(places[0])):
        return reader(places, **options)  # type: ignore[no-any-return]
    if kind.name == "clip-list" and all(map(_is_video, places)):
        return reader(places, **options)  # type: ignore[no-any-return]
    if kind.takes == "files":
        return reader(places, **options)  # type: ignore[no-any-return]
    if len(places) > 1:
        raise SourceError(f"{kind.title} is one {kind.takes}, got {len(places)}: give one of them")
    return reader(places[0], **options)  # type: ignore[no-any-return]


def _storage_options(options: dict[str, object]) -> "StorageOptions":
    """Take the options that say how URLs are reached out of the others."""
    from readers.remote import configure

    known = _storage_names()
    taken: dict[str, Any] = {name: options.pop(name) for name in list(options) if name in known}
    return replace(configure(), **taken)


def _storage_names() -> list[str]:
    from readers.remote import StorageOptions

    return [found.name for found in fields(StorageOptions)]


def _kind(places: list[str]) -> Format:
    """Tell the one format of files, or of what lies in a folder, whose files replace it in the list."""
    if len(places) == 1 and not _is_url(places[0]) and Path(places[0]).is_dir():
        kind, files = _kind_of_folder(Path(places[0]))
        places[:] = files or places
        return kind
    kinds = {place: _kind_of_file(place) for place in places}
    if len({kind.name for kind in kinds.values()}) > 1:
        first = kinds[places[0]]
        place, other = next(item for item in kinds.items() if item[1] is not first)
        raise SourceError(
            f"a list must hold one format, got {places[0]} ({first.title}) and {place} ({other.title})"
        )
    return kinds[places[0]]


def _named(format: str, places: list[str]) -> Format:
    """Return the format that the caller named; of a folder the files that are of it are taken."""
    kind = FORMATS[format]
    if kind.takes == "files" and len(places) == 1 and Path(places[0]).is_dir():
        inside = sorted(Path(places[0]).iterdir())
        places[:] = [str(path) for path in inside if format_of(path.name) is kind] or places
    return kind


def _kind_of_file(place: str) -> Format:
    found = format_of(place.partition("?")[0] if _is_url(place) else place)
    if place.startswith("pipe:"):
        return FORMATS["stream"]
    if place.rpartition("/")[2] == _MDS_INDEX:
        return FORMATS["mds"]
    if found:
        return _kind_of_list(Path(place)) if found.name == "list" and not _is_url(place) else found
    if is_image_file(place):
        return FORMATS["list"]
    if not _is_url(place):
        if not Path(place).exists():
            raise SourceError(
                f"{place} does not exist: give a folder, a list file, shards or a URL"
            )
        if Path(place).is_dir():
            raise SourceError(
                f"{place} is a folder, and a list or a pattern names files: give the one folder that holds "
                "all of them, or open each and join them with readers.mix"
            )
        if _is_video(place):
            return FORMATS["clip-list"]
        if place.lower().endswith(_NO_VIDEO):
            raise SourceError(f"{place} {_RENAME}")
        from readers.tfrecord import looks_like_tfrecord

        with Path(place).open("rb") as file:
            if looks_like_tfrecord(file.read(16)):  # train-00000-of-01024
                return FORMATS["tfrecord"]
    suffixes = ", ".join(suffix for kind in FORMATS.values() for suffix in kind.suffixes)
    raise SourceError(
        f"{place} is of no known kind: give a folder, or files that end in {suffixes}"
    )


def _kind_of_folder(folder: Path) -> tuple[Format, list[str]]:
    """Tell what a folder holds, and which of its files are to be opened; none when it is the folder."""
    _, folders, files = next(os.walk(folder), ("", [], []))
    marker = next((name for name in _MARKERS if name in files), None)
    if marker:
        return FORMATS[_MARKERS[marker]], []
    if _METADATA in files:
        return FORMATS["manifest"], [str(folder / _METADATA)]
    if _PACKED in files:
        _require_finished(folder)
    shards = sorted(name for name in files if _is_shard(name))
    others = [name for name in files if is_image_file(name)] + folders
    others = sorted(name for name in others if name[0] != ".")
    if shards and others and not all("=" in name for name in others):
        raise SourceError(
            f"{folder} holds shards ({shards[0]}) and {others[0]}: "
            "give the shards as a list or a pattern, or move them to a folder of their own"
        )
    if shards:
        places = [str(folder / name) for name in shards]
        return _kind(places), places
    if any("=" in name for name in folders) and next(folder.rglob("*.parquet"), None):
        return FORMATS["parquet"], []
    first = _first_medium(folder)
    if _is_video(first):
        return FORMATS["video-folder"], []
    if first.lower().endswith(_NO_VIDEO):
        raise SourceError(f"{folder} holds no images and no videos; {first} {_RENAME}")
    return FORMATS["frame-folder" if _holds_frames(folder) else "folder"], []


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
            if _is_video(name) or is_image_file(name):
                return name
            if name.lower().endswith(_NO_VIDEO):
                other = other or name
    return other


def _is_video(name: str) -> bool:
    return name.lower().endswith(_VIDEO_SUFFIXES)


def _holds_frames(folder: Path) -> bool:
    """Whether the first folder two levels below holds frames of a video, by their names."""
    for place, folders, files in os.walk(folder):
        names = [name for name in files if name[0] != "." and is_image_file(name)]
        depth = len(Path(place).relative_to(folder).parts)
        if names or depth == 2:
            return depth == 2 and _are_frames(names)
        folders[:] = sorted(name for name in folders if name[0] != ".")[:1]
    return False


def _are_frames(names: list[str]) -> bool:
    """Whether pictures are called like frames, and numbered from 0 or 1 on without gaps."""
    found = [_FRAME.fullmatch(name) for name in names]
    numbers = sorted(int(one[1]) for one in found if one)
    if len(numbers) < max(2, len(names)):
        return False
    return numbers[0] <= 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


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


def _is_shard(name: str) -> bool:
    """Whether a file in a folder is one of many of its format; lists and manifests lie beside images."""
    found = format_of(name)
    return found is not None and found.takes == "files" and name[0] != "."


def _is_list(place: str) -> bool:
    return format_of(place) is FORMATS["list"]


def _is_url(place: str) -> bool:
    return _URL.match(place) is not None


def _places(text: str, storage: "StorageOptions | None") -> list[str]:
    """Return what a path, a pattern or the URL of a folder stands for."""
    if text.startswith("pipe:"):
        return [text]
    if storage and _is_url(text):
        return [place for url in expand_braces(text) for place in _listed(url, storage)]
    if Path(text).exists():  # also a file that has braces or stars in its name
        return [text]
    names = expand_braces(text)
    return [place for name in names for place in _matched(name)]


def _matched(name: str) -> list[str]:
    if not has_magic(name) or Path(name).exists():
        return [name]
    found = sorted(glob(name))  # noqa: PTH207 - Path.glob wants a folder apart
    if not found:
        raise SourceError(f"{name} fits no file: correct the pattern")
    return found


def _listed(url: str, storage: "StorageOptions") -> list[str]:
    from readers.remote import Url, list_remote

    if not url.endswith("/"):
        return [Url(url, storage)]
    there = list_remote(url, storage)
    deeper = [place for place in there if "/" in place.removeprefix(url)]
    there = [place for place in there if "/" not in place.removeprefix(url)]
    if f"{url}{_MDS_INDEX}" in there:
        return [Url(f"{url}{_MDS_INDEX}", storage)]
    found = [place for place in there if _is_shard(place.rpartition("/")[2])]
    folders = sorted({place.removeprefix(url).partition("/")[0] for place in deeper})
    if not found:
        inside = f", but folders ({', '.join(folders[:5])}): give one of them" if folders else ""
        raise SourceError(
            f"{url} holds no shards{inside or ': give the URL of files or of their folder'}"
        )
    if folders:
        raise SourceError(
            f"{url} holds shards and the folder {folders[0]}: give the shards as a pattern, or move them "
            "to a folder of their own"
        )
    return [Url(place, storage) for place in found]


def expand_braces(pattern: str) -> list[str]:
    """Return the names that a pattern stands for, the last brace counting fastest.

    ``{000..099}`` counts, both ends included, with leading zeros if an end has them; ``{a,b}``
    lists. Other braces are left as they are, and braces do not nest.
    """
    pieces = _BRACES.split(pattern)
    choices = [
        _alternatives(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)
    ]
    return ["".join(choice) for choice in itertools.product(*choices)]


def _alternatives(text: str) -> list[str]:
    counted = _RANGE.fullmatch(text)
    if counted:
        first, last = map(int, counted.groups())
        padded = any(len(end) > 1 and end[0] == "0" for end in counted.groups())
        width = max(map(len, counted.groups())) if padded else 0
        step = 1 if first <= last else -1
        return [f"{number:0{width}d}" for number in range(first, last + step, step)]
    return text.split(",") if "," in text else ["{" + text + "}"]
