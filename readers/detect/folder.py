"""Detect the format of a folder by its index files, and by the names and contents of its files and subfolders."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from readers.describe import few_of
from readers.detect.files import (
    HEAD_BYTES,
    NO_OPTIONS,
    NO_VIDEO,
    RENAME,
    Detected,
    Options,
    detect_files,
    is_shard,
)
from readers.detect.listed_folder import ListedFolder
from readers.detect.registry import FORMATS, Format, format_by_contents, format_by_head, format_of
from readers.detect.splits import (
    canonical,
    choose_split,
    folder_splits,
    in_order,
    no_such_split,
    refuse_several,
    split_alone,
    split_of,
)
from readers.formats.declared import require_finished
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import files_below, listed
from readers.storage.whole_files import read_head

_MOST_LISTED = 10_000  # shards below a folder, of which the first is named in an error


def detect_folder(path: Path, split: str | None, options: Options = NO_OPTIONS) -> Detected:
    """Return the format of a folder, and the files or the subfolder to open.

    Args:
        path: The folder.
        split: The requested split; None if the folder has only one.
        options: The options that the caller passed; some of them determine the format.

    Raises:
        SourceError: The folder is of an unknown format or of several formats, or has several splits.
    """
    if kind := format_by_contents(path):
        if split is not None and not kind.own_splits:
            raise no_such_split(str(path), split, [])
        _require_no_record_files(path, kind)
        return Detected(kind, [str(path)])
    folder = ListedFolder(path)
    if found := _ask_formats(folder, split, "before splits") or _detect_index(folder, split):
        return found
    if splits := folder_splits(folder.folders):
        return _detect_in_split(path, splits, split, options)
    require_finished(path)
    shards = list(filter(is_shard, folder.files))
    if found := _ask_formats(folder, split, "after splits"):
        return found
    others = sorted([*filter(is_image_file, folder.files), *folder.folders])
    if shards and others and not all("=" in name for name in others):
        raise SourceError(
            f"{path} holds shards ({shards[0]}) and {others[0]}: "
            "give the shards as a list or a pattern, or move them to a folder of their own"
        )
    if shards:
        paths = choose_split([str(path / name) for name in shards], split, str(path))
        return detect_files(paths, None, options)
    return _detect_media(folder, split, options)


def _ask_formats(folder: ListedFolder, split: str | None, stage: str) -> Detected | None:
    """Return the first format whose hook `Format.detect` recognises the folder; None if no hook does.

    Args:
        folder: The folder.
        split: The requested split, or None.
        stage: Value of `Format.stage`; only formats with this value are asked.
    """
    for kind in FORMATS.values():
        if kind.stage == stage and (paths := kind.ask("detect", folder, split)):
            return Detected(kind, paths)
    return None


def _detect_index(folder: ListedFolder, split: str | None) -> Detected | None:
    """Return the format of the index file that stands for the folder; None if the folder has no such file.

    Raises:
        SourceError: There is such a file, and a split is requested.
    """
    kind = next((one for one in FORMATS.values() if one.index_file(folder.files)), None)
    if kind is not None and split is not None:
        raise no_such_split(str(folder.path), split, [])
    return None if kind is None else Detected(kind, [str(folder.path)])


def _require_no_record_files(folder: Path, kind: Format) -> None:
    """Refuse a folder with annotated images and files of records, because it is unclear which of them is wanted.

    Raises:
        SourceError: The folder holds both.
    """
    if not kind.refuses_records:
        return
    records = sorted(name for name in listed(folder)[1] if name[0] != "." and is_shard(name))
    if records:
        raise SourceError(
            f"{folder} holds files of {kind.name} and {few_of(records)}: say open_dataset({str(folder)!r}, "
            f"format={kind.name!r}) to have the images with their annotations, or "
            f"open_dataset({str(folder / records[0])!r}) to have the records"
        )


def _detect_in_split(
    folder: Path, splits: Mapping[str, str], split: str | None, options: Options
) -> Detected:
    """Return the format of the folder of a split.

    Args:
        folder: The folder that contains the folders of the splits.
        splits: The split of each of these folders, by name.
        split: The requested split.
        options: The options that the caller passed.

    Raises:
        SourceError: No split is requested, or the requested split does not exist.
    """
    if split is None:
        what, hint = f"the folder {folder}/", "where they are classes, say"
        refuse_several(str(folder), splits, what, f"; {hint} format={_media_formats()[0].name!r}")
    chosen = folder_of_split(folder, list(splits), split)
    found = detect_folder(chosen, None, options)
    train = [folder / name for name in splits if splits[name] == "train"]
    if len(train) != 1 or found.paths == [str(train[0])]:
        return found
    further = found.format.ask("split_options", Path(found.paths[0]), train[0])
    return found._replace(options=further or NO_OPTIONS)


def _detect_media(folder: ListedFolder, split: str | None, options: Options) -> Detected:
    """Return the format of a folder of images, videos or frames, or of a folder with lists or single files of these."""
    path, lists = folder.path, _lists_of_splits(folder.files)
    if split is not None:
        wanted = [name for name in lists if lists[name] == canonical(split)]
        if len(wanted) == 1:
            return detect_files([str(path / wanted[0])], None, options)
    elif len({*lists.values()}) > 1:
        hint = f"; where {', '.join(lists)} say nothing of the images, say format={_media_formats()[0].name!r}"
        refuse_several(str(path), lists, f"the file {path}/", hint)
    if not folder.first_medium and (found := _detect_without_media(folder, split, options)):
        return found
    if split is not None:
        return detect_folder(folder_of_split(path, folder.folders, split), None, options)
    if folder.first_medium.lower().endswith(NO_VIDEO):
        raise SourceError(f"{path} holds no images and no videos; {folder.first_medium} {RENAME}")
    # The first format, the class folders of images, takes any folder; its class raises the error if there are no images.
    kinds = _media_formats()
    kind = next((one for one in reversed(kinds) if one.ask("detect", folder, split)), kinds[0])
    return Detected(kind, [str(path)])


def _media_formats() -> list[Format]:
    return [kind for kind in FORMATS.values() if kind.stage == "media"]


def _detect_without_media(
    folder: ListedFolder, split: str | None, options: Options
) -> Detected | None:
    """Return the format of record files without a suffix; None if the folder has no files of known formats.

    Raises:
        SourceError: The folder holds files or folders of known formats, which should be given instead of the folder.
    """
    path, files = folder.path, folder.files
    stores = [name for name in folder.folders if format_by_contents(path / name)]
    if stores:
        raise SourceError(f"{path} holds {few_of(stores)}: give one of these folders")
    heads = {str(path / name): read_head(path / name, HEAD_BYTES) for name in files}
    records = {name: kind for name, head in heads.items() if (kind := format_by_head(head))}
    if records:  # train-00000-of-01024
        kind = next(iter(records.values()))
        return Detected(kind, choose_split(list(records), split, str(path)))
    if "data" in folder.folders:  # as in repositories of the Hugging Face Hub
        return detect_folder(path / "data", split, options)
    known = [name for name in files if (kind := format_of(name)) and not kind.vague_suffixes]
    if known:
        suffix, kind = Path(known[0]).suffix, format_of(known[0])
        advice = f"give one of these files, as in open_dataset({str(path / known[0])!r})"
        if (
            kind
            and kind.if_several
            and known[1:]
            and all(format_of(name) is kind for name in known)
        ):
            advice = kind.if_several.format(pattern=str(path / f"*{suffix}"))
        raise SourceError(f"{path} holds no images, but {few_of(known)}: {advice}")
    shards = (str(file) for file in files_below(path) if is_shard(file.name))
    if below := sorted(islice(shards, _MOST_LISTED)):
        choose_split(below, None, str(path))  # refuses several splits
        raise SourceError(
            f"{path} holds no images, but shards in the folder {Path(below[0]).parent}: give that folder"
        )
    return None


def folder_of_split(folder: Path, folders: Sequence[str], split: str) -> Path:
    """Return the subfolder of a split.

    Args:
        folder: The folder that contains the folders of the splits.
        folders: Names of its subfolders.
        split: The requested split.

    Raises:
        SourceError: No subfolder or several subfolders are named after the split.
    """
    splits = {name: split_of(name) for name in folders if (folder / name).is_dir()}
    found = [name for name, one in splits.items() if split == name or one == canonical(split)]
    if not found:
        names = in_order({one for one in splits.values() if one})
        raise no_such_split(str(folder), split, names)
    if len(found) > 1:
        raise SourceError(
            f"{folder} has several folders of the split {split!r} ({', '.join(found)}): give one of them"
        )
    return folder / found[0]


def _lists_of_splits(files: Sequence[str]) -> dict[str, str]:
    """Return the split of each list, manifest or table that is named after a split, by file name."""
    stems = {name.rpartition(".")[0] for name in files if is_image_file(name)}
    found = {}
    for name in files:
        kind, stem = format_of(name), name.partition(".")[0]
        if kind and kind.takes == "file" and stem not in stems:
            split = split_alone(stem)  # test_results.json may be anything
            if split:
                found[name] = split
    return found
