"""Detect the format of a folder by its index files, by names, and by its contents."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from readers.describe import few_of
from readers.detect.files import (
    MDS_INDEX,
    NO_VIDEO,
    RENAME,
    Detected,
    detect_files,
    is_list,
    is_shard,
    is_tfrecord,
    is_video,
)
from readers.detect.registry import FORMATS, Format, format_by_contents, format_of
from readers.detect.split_classes import with_classes_of_train
from readers.detect.splits import (
    canonical,
    choose_split,
    folder_splits,
    in_order,
    no_such_split,
    several_splits,
    split_alone,
    split_of,
)
from readers.formats.declared import require_finished
from readers.formats.path_table.metadata_folder import find_metadata, has_named_files
from readers.formats.tar.listed import finished_shards
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import files_below, listed, refuse_folder_error

_METADATA = "metadata.jsonl"  # names the images beside it, as Hugging Face's image folders do
_ROBOFLOW = "_annotations.coco.json"  # of the images beside it
_SAVED = "dataset_info.json"
_SAVED_SPLITS = "dataset_dict.json"
# Files that say what the folder around them is.
_MARKERS = {_SAVED: "arrow", _SAVED_SPLITS: "arrow", "data.mdb": "lmdb", MDS_INDEX: "mds"}
# Cameras write IMG_1234.jpg.
FRAME = re.compile(r"(?:img|frame)[-_]?([0-9]{4,})\.[A-Za-z]+")
# Formats of images and files of annotations, which have no record files of their own.
_ANNOTATED = ("voc", "yolo", "labelme")
_MOST_LISTED = 10_000  # shards below a folder


def detect_folder(folder: Path, split: str | None) -> Detected:
    """Return the format of a folder, and the files or the folder in it to open."""
    if kind := format_by_contents(folder):
        if split is not None and not kind.own_splits:
            raise no_such_split(str(folder), split, [])
        _require_no_record_files(folder, kind)
        return Detected(kind, [str(folder)])
    folders, files = listed(folder)
    folders = sorted(name for name in folders if name[0] != ".")
    files = sorted(name for name in files if name[0] != ".")
    shards = sorted(name for name in files if is_shard(name))
    marker = next((name for name in _MARKERS if name in files), None)
    is_saved = "state.json" in files or any(name.endswith(".arrow") for name in shards)
    if marker == _SAVED and not is_saved:
        marker = None  # TensorFlow Datasets calls a file of its own so
    if marker:
        return _detect_by_marker(folder, marker, split)
    if _ROBOFLOW in files and split is None:
        return Detected(FORMATS["coco"], [str(folder / _ROBOFLOW)])
    if splits := folder_splits(folders):
        return _detect_in_split(folder, splits, split)
    metadata = find_metadata(folder, files)
    if metadata is not None and (metadata.name != _METADATA or has_named_files(metadata)):
        return Detected(FORMATS["csv"], [str(metadata)])
    if _METADATA in files and split is None:
        return Detected(FORMATS["manifest"], [str(folder / _METADATA)])
    require_finished(folder)
    if tars := finished_shards(folder, files):
        return detect_files(choose_split(tars, split, str(folder)), None)
    others = sorted([name for name in files if is_image_file(name)] + folders)
    if shards and others and not all("=" in name for name in others):
        raise SourceError(
            f"{folder} holds shards ({shards[0]}) and {others[0]}: "
            "give the shards as a list or a pattern, or move them to a folder of their own"
        )
    if shards:
        paths = choose_split([str(folder / name) for name in shards], split, str(folder))
        return detect_files(paths, None)
    if any("=" in name for name in folders) and next(_parquet_below(folder), None):
        return _detect_partitions(folder, split)
    return _detect_media(folder, folders, files, split)


def _require_no_record_files(folder: Path, kind: Format) -> None:
    """Refuse annotated images beside a file of records, because either may be the wanted data."""
    records = sorted(name for name in listed(folder)[1] if name[0] != "." and is_shard(name))
    if records and kind.name in _ANNOTATED:
        raise SourceError(
            f"{folder} holds files of {kind.name} and {few_of(records)}: say open_dataset({str(folder)!r}, "
            f"format={kind.name!r}) to have the images with their annotations, or "
            f"open_dataset({str(folder / records[0])!r}) to have the records"
        )


def _detect_in_split(folder: Path, splits: Mapping[str, str], split: str | None) -> Detected:
    """Detect the folder of a split, given the split of each folder."""
    if split is None:
        names = in_order(splits.values())
        first = next(name for name in splits if splits[name] == names[0])
        raise SourceError(
            f"{several_splits(str(folder), names, f'the folder {folder / first}')}; where they are classes, "
            "say format='folder'"
        )
    chosen = folder_of_split(folder, list(splits), split)
    return with_classes_of_train(detect_folder(chosen, None), folder, splits)


def _detect_by_marker(folder: Path, marker: str, split: str | None) -> Detected:
    if split is None:
        return Detected(FORMATS[_MARKERS[marker]], [str(folder)])
    if marker == _SAVED_SPLITS:
        names = [path.name for path in sorted(folder.iterdir()) if (path / "state.json").is_file()]
        wanted = split if split in names else canonical(split)
        if wanted not in names:
            raise no_such_split(str(folder), split, in_order(names))
        return Detected(FORMATS["arrow"], [str(folder / wanted)])
    if marker == _SAVED and not (folder / "state.json").is_file():
        found = sorted(path for path in folder.glob("*.arrow") if path.name[:6] != "cache-")
        return Detected(FORMATS["arrow"], choose_split(list(map(str, found)), split, str(folder)))
    raise no_such_split(str(folder), split, [])


def _detect_partitions(folder: Path, split: str | None) -> Detected:
    """Detect folders such as ``label=3`` with Parquet files."""
    files = [path.relative_to(folder).as_posix() for path in sorted(_parquet_below(folder))]
    chosen = choose_split([f"{folder}/{name}" for name in files], split, str(folder))
    return Detected(FORMATS["parquet"], [str(folder)] if split is None else chosen)


def _parquet_below(folder: Path) -> Iterator[Path]:
    return (path for path in files_below(folder) if path.suffix == ".parquet")


def _detect_media(
    folder: Path, folders: list[str], files: list[str], split: str | None
) -> Detected:
    """Detect images, videos and frames, or lists and single files in their place."""
    lists = _lists_of_splits(files)
    names = in_order(lists.values())
    if split is not None:
        wanted = [name for name in lists if lists[name] == canonical(split)]
        if len(wanted) == 1:
            return detect_files([str(folder / wanted[0])], None)
    elif len(names) > 1:
        first = next(name for name in lists if lists[name] == names[0])
        raise SourceError(
            f"{several_splits(str(folder), names, f'the file {folder / first}')}; where {', '.join(lists)} say "
            "nothing of the images, say format='folder'"
        )
    first = _first_medium(folder)
    if not first:
        return _detect_without_media(folder, folders, files, split)
    if split is not None:
        return detect_folder(folder_of_split(folder, folders, split), None)
    if is_video(first):
        return Detected(FORMATS["video-folder"], [str(folder)])
    if first.lower().endswith(NO_VIDEO):
        raise SourceError(f"{folder} holds no images and no videos; {first} {RENAME}")
    return Detected(FORMATS["frame-folder" if _holds_frames(folder) else "folder"], [str(folder)])


def _detect_without_media(
    folder: Path, folders: list[str], files: list[str], split: str | None
) -> Detected:
    stores = [name for name in folders if format_by_contents(folder / name)]
    if stores:
        raise SourceError(f"{folder} holds {few_of(stores)}: give one of these folders")
    found = [str(folder / name) for name in files if is_tfrecord(folder / name)]
    if found:  # train-00000-of-01024
        return Detected(FORMATS["tfrecord"], choose_split(found, split, str(folder)))
    if "data" in folders:  # as in repositories of the Hugging Face Hub
        return detect_folder(folder / "data", split)
    known = [name for name in files if format_of(name) and not is_list(name)]
    shards = (str(path) for path in files_below(folder) if is_shard(path.name))
    below = sorted(islice(shards, _MOST_LISTED))
    arrays = [name for name in known if name.lower().endswith(".npy")]
    if arrays == known and len(known) > 1:
        raise SourceError(
            f"{folder} holds no images, but {few_of(known)}: where each is one image, say "
            f"open_dataset({str(folder / '*.npy')!r}, format='list'), else give one of these files"
        )
    if known:
        raise SourceError(
            f"{folder} holds no images, but {few_of(known)}: give one of these files, as in "
            f"open_dataset({str(folder / known[0])!r})"
        )
    if below:
        choose_split(below, None, str(folder))  # which refuses several
        raise SourceError(
            f"{folder} holds no images, but shards in the folder {Path(below[0]).parent}: give that folder"
        )
    if split is not None:
        return detect_folder(folder_of_split(folder, folders, split), None)
    return Detected(FORMATS["folder"], [str(folder)])  # which says what may lie in one


def folder_of_split(folder: Path, folders: Sequence[str], split: str) -> Path:
    """Return the one folder of a split.

    Raises:
        SourceError: There is none, or there are several.
    """
    told = {name: split_of(name) for name in folders if (folder / name).is_dir()}
    found = [name for name, one in told.items() if split == name or one == canonical(split)]
    if not found:
        names = in_order({one for one in told.values() if one})
        raise no_such_split(str(folder), split, names)
    if len(found) > 1:
        raise SourceError(
            f"{folder} has several folders of the split {split!r} ({', '.join(found)}): give one of them"
        )
    return folder / found[0]


def _lists_of_splits(files: Sequence[str]) -> dict[str, str]:
    """Return the split of each list, manifest or table that is named after one."""
    stems = {name.rpartition(".")[0] for name in files if is_image_file(name)}
    found = {}
    for name in files:
        kind, stem = format_of(name), name.partition(".")[0]
        if kind and kind.takes == "file" and stem not in stems:
            split = split_alone(stem)  # test_results.json may be anything
            if split:
                found[name] = split
    return found


def _first_medium(folder: Path) -> str:
    """Return the first image or video below a folder, else the first .ts file, else ""."""
    other = ""
    for _, folders, files in os.walk(folder, onerror=refuse_folder_error):
        folders.sort()
        for name in sorted(name for name in files if name[0] != "."):
            if is_video(name) or is_image_file(name):
                return name
            if name.lower().endswith(NO_VIDEO):
                other = other or name
    return other


def _holds_frames(folder: Path) -> bool:
    """Return whether the first folder two levels below holds frames of a video, judged by their names."""
    for path, folders, files in os.walk(folder, onerror=refuse_folder_error):
        names = [name for name in files if name[0] != "." and is_image_file(name)]
        depth = len(Path(path).relative_to(folder).parts)
        if names or depth == 2:
            return depth == 2 and _are_frames(names, path)
        folders[:] = sorted(name for name in folders if name[0] != ".")[:1]
    return False


def _are_frames(names: list[str], folder: str) -> bool:
    """Return whether pictures are named like frames, and numbered from 0 or 1 on without gaps.

    Raises:
        SourceError: They are, but a few numbers are missing.
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
        raise SourceError(
            f"{folder} holds pictures that are called like frames of a video, but number {few_of(missing)} is missing: "
            "say format='frame-folder' to read videos without it, or format='folder' to read images of classes"
        )
    return True
