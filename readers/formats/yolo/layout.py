"""Search for the pictures and labels of a YOLO dataset, by its YAML file or by its folders."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.detect.left_out import LeftOut
from readers.detect.splits import (
    canonical,
    in_order,
    no_such_split,
    several_splits,
    splits_of,
)
from readers.formats.boxes.checks import unpaired_warnings
from readers.formats.boxes.dataset import Entry, files_below, names_below, stem_of
from readers.formats.named_splits import choose_name
from readers.formats.text import filled_lines
from readers.formats.yolo.config import NO_CONFIG, Config, find_config, read_config
from readers.plural import counted
from readers.sample import SourceError, is_image_file
from readers.storage.whole_files import read_text

_LOOKED_AT = 20  # first pictures of a list, one of which must exist
_MPO = ".mpo"  # pictures of stereo cameras: a JPEG followed by another one


def find_root(config: Config, root: Path | None) -> Path:
    """Return the folder that the names in a YAML file are relative to.

    This is `root` if given; otherwise ``path`` below the YAML file's folder, if it exists; otherwise the YAML file's folder.

    Raises:
        SourceError: ``path`` leads elsewhere, and no split lies in the YAML file's folder.
    """
    if root is not None:
        return root
    beside = config.file.parent
    named = Path(os.path.normpath(beside / config.path))
    if named.is_relative_to(beside) and named.is_dir():
        return named
    firsts = [places[0] for places in config.splits.values()]
    if any((beside / _inside(place)).exists() for place in firsts):
        return beside
    raise SourceError(
        f"{config.file} says path: {config.path or '(nothing)'} and {firsts[0]}, which do not lie in its folder: name the "
        "folder of the dataset, open_dataset(..., root=folder)"
    )


def find_images(root: Path, places: Sequence[str], source: Path) -> tuple[list[str], list[str]]:
    """Return the pictures of a split, relative to the root and sorted, and warnings.

    Args:
        root: Folder of the dataset.
        places: Folders (pictures may lie at any depth) and ``.txt`` lists of pictures, as written in the YAML file.
        source: Path of the YAML file, for errors.

    Raises:
        SourceError: A folder or list does not exist or leads out of the root, or there are no pictures.
    """
    names: set[str] = set()
    left_out = LeftOut(root)
    for place in places:
        inside = _below(root, place, source)
        if (root / inside).is_dir():
            for prefix, files in files_below(root, inside):
                names |= {f"{prefix}{name}" for name in files if _is_picture(name)}
                left_out.add(prefix, (name for name in files if not _is_picture(name)))
        elif inside.endswith(".txt"):
            names |= set(_read_list(root, inside))
        else:
            raise SourceError(
                f"{source} names {place}, which is no folder and no .txt list: name one of these"
            )
    if not names:
        raise SourceError(
            f"{source} names {places[0]}, where no pictures are: correct it, or put them there"
        )
    return sorted(names), [*left_out.remarks(len(names))]


def file_of_picture(name: str, folder: str, ending: str) -> str:
    """Return the name of a picture's label or mask file.

    It lies in ``folder`` instead of the last folder ``images`` in the picture's path, or next to the picture if there is no
    such folder.

    Example:
        >>> file_of_picture("images/train/a.b.jpg", "labels", ".txt")
        'labels/train/a.b.txt'
    """
    before, images, behind = f"/{name}".rpartition("/images/")
    changed = f"{before}/{folder}/{behind}" if images else f"/{name}"
    return stem_of(changed)[1:] + ending


def _below(root: Path, place: str, source: Path) -> str:
    """Return the name of a folder or list relative to the root.

    ``../`` at the beginning is dropped, since Roboflow writes it in exports although it leads nowhere.

    Raises:
        SourceError: The name leads out of the root, or does not exist.
    """
    prefix = f"{root}/"
    written = place[len(prefix) :] if place.startswith(prefix) else place
    inside = os.path.normpath(_inside(written))
    if inside.startswith(("/", "../")) or inside == ".." or "\0" in inside:
        raise SourceError(
            f"{source} names {place}, which leads out of {root}: name the folder around both, open_dataset(..., root=folder)"
        )
    if not (root / inside).exists():
        advice = (
            ": name the folder around both, open_dataset(..., root=folder)"
            if inside != place
            else ""
        )
        raise SourceError(f"{source} names {place}, but {root / inside} does not exist{advice}")
    return inside


def _inside(place: str) -> str:
    while place.startswith("../"):
        place = place[3:]
    return place


def _read_list(root: Path, list_name: str) -> list[str]:
    """Return the names of the pictures in a list, relative to the root.

    In the list, ``./a.jpg`` is relative to the list's folder, other names to the root.
    """
    path = root / list_name
    paths = []
    for number, line in filled_lines(read_text(path, "a list of pictures")):
        written = line
        if line.startswith("./"):
            written = os.path.join(os.path.dirname(list_name), line[2:])  # noqa: PTH118, PTH120
        prefix = f"{root}/"
        name = os.path.normpath(written.removeprefix(prefix))
        if name.startswith(("/", "../")) or "\0" in name:
            raise SourceError(
                f"{path}:{number} names {line}, which leads out of {root}: write names relative to it"
            )
        if not _is_picture(name):
            raise SourceError(f"{path}:{number} names {line}, which is no picture by its ending")
        paths.append(name)
    if paths and not any((root / name).exists() for name in paths[:_LOOKED_AT]):
        raise SourceError(
            f"{path}:1 names {paths[0]}, but {root / paths[0]} does not exist, nor do the next ones: write names that are "
            f"relative to {root}, or give the folder around it as root="
        )
    return paths


def _is_picture(name: str) -> bool:
    # splitext is three times as fast as Path.suffix
    return is_image_file(name) or os.path.splitext(name)[1].lower() == _MPO  # noqa: PTH122


class Layout(NamedTuple):
    """The files of a split.

    Attributes:
        root: Folder that all names are relative to.
        entries: File names of the samples, sorted.
        config: Content of the YAML file, `NO_CONFIG` without one.
        remarks: Warnings for the user.
    """

    root: Path
    entries: list[Entry]
    config: Config
    remarks: list[str]


def find_layout(source: Path, split: str | None, root: Path | None, *, labelled: bool) -> Layout:
    """Return the pictures of a split, and their label files.

    Args:
        source: Path of a folder, or of the YAML file of a dataset.
        split: Name of the split; None if there is only one.
        root: Folder of the dataset, if it differs from that of the YAML file.
        labelled: Whether at least one picture must have a label file.

    Raises:
        SourceError: There are no pictures or no labels, several splits but `split` is None, or no such split.
    """
    file = find_config(source) if source.is_dir() else source
    config = read_config(file) if file else NO_CONFIG
    if file:
        root = find_root(config, root)
        name = choose_name({one: one for one in config.splits}, split, config.file)
        places = config.splits[name]
        names, remarks = find_images(root, places, config.file)
    else:
        root, remarks = root or source, []
        names = _without_config(root, split)
    if config.masks_dir:
        return Layout(root, [Entry(stem_of(name), name, "") for name in names], config, remarks)
    entries, remark = _with_labels(root, names, labelled=labelled)
    return Layout(root, entries, config, [*remarks, *remark])


def _without_config(root: Path, split: str | None) -> list[str]:
    """Return the names of a split's pictures in a folder without a YAML file; splits are recognised by folder names."""
    names = sorted(filter(is_image_file, names_below(root)))
    if not names:
        raise SourceError(f"{root} holds no pictures: give the folder with images and labels")
    has_folders = any("/" in name for name in names)
    of_each = splits_of(names) if has_folders else [frozenset()] * len(names)
    splits = in_order({one for some in of_each for one in some})
    if split is None and len(splits) < 2:
        return names
    if split is None:
        raise SourceError(several_splits(str(root), splits, ""))
    wanted = canonical(split)
    chosen = [name for name, some in zip(names, of_each, strict=True) if {split, wanted} & some]
    if not chosen:
        raise no_such_split(str(root), split, splits)
    return chosen


def _with_labels(
    root: Path, names: Sequence[str], *, labelled: bool
) -> tuple[list[Entry], list[str]]:
    """Return an entry for each picture, and warnings with the counts of pictures and labels without a counterpart.

    Args:
        root: Folder of the dataset.
        names: Names of the pictures.
        labelled: Whether label files are needed: at least one picture must have one, and a warning counts those without.

    Raises:
        SourceError: `labelled` is true, and no picture has a label file.
    """
    labels = [file_of_picture(name, "labels", ".txt") for name in names]
    present = _present(root, labels)
    entries = [
        Entry(stem_of(name), name, label if label in present else "")
        for name, label in zip(names, labels, strict=True)
    ]
    missing = sum(not one.annotation for one in entries)
    if missing == len(entries) and labelled:
        raise SourceError(
            f"{root} has labels for none of the {counted(len(entries), 'picture')} of the split (the first missing one is {labels[0]}), "
            "which would train on background alone: open the folder of the pictures to have them without objects"
        )
    alone = _num_alone(root, names, present)
    remarks = unpaired_warnings(root, 0, alone, ".txt")
    if missing and labelled:
        remarks.append(
            f"{root} has no .txt for {missing} of the {counted(len(entries), 'picture')} of the split, which count as background"
        )
    return entries, remarks


def _present(root: Path, labels: Iterable[str]) -> set[str]:
    """Return the names of all label files in the folders of the given names, also of those without a picture."""
    folders = {name.rpartition("/")[0] for name in labels}
    return {name for folder in folders for name in _names_in(root, folder) if _is_labels(name)}


def _num_alone(root: Path, names: Iterable[str], present: set[str]) -> int:
    """Return the number of label files without a picture in any split.

    Only label files in folders without pictures are counted.

    Args:
        root: Folder of the dataset.
        names: Names of the pictures of the split.
        present: Names of all label files.
    """
    folders = {name.rpartition("/")[0] for name in names}
    expected = {
        file_of_picture(name, "labels", ".txt")
        for folder in folders
        for name in _names_in(root, folder)
        if is_image_file(name)
    }
    return sum(name.rpartition("/")[0] not in folders for name in present - expected)


def _names_in(root: Path, folder: str) -> list[str]:
    """Return the names of the files and folders in a folder, relative to the root; an empty list if it does not exist."""
    path, prefix = root / folder, f"{folder}/" if folder else ""
    return [f"{prefix}{one.name}" for one in path.iterdir()] if path.is_dir() else []


def _is_labels(name: str) -> bool:
    return name.endswith(".txt") and name.rpartition("/")[2] != "classes.txt"
