"""Which pictures and labels of a YOLO dataset are samples: by its description, or without one by its folders."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from readers.formats.boxes.checks import told_of_unpaired
from readers.formats.boxes.dataset import Entry
from readers.formats.boxes.listing import files_below, stem_of
from readers.formats.splits import (
    canonical,
    in_order,
    no_such_split,
    several_splits,
    splits_of,
)
from readers.formats.yolo.config import Config, find_config, read_config
from readers.formats.yolo.images import beside_images, find_images, find_root
from readers.plural import counted
from readers.sample import SourceError, is_image_file


class Layout(NamedTuple):
    """The files of a split.

    Attributes:
        root: Folder that the names are relative to.
        entries: The samples, sorted by name.
        config: What describes the dataset, None where its folders alone do.
        remarks: Sentences for people.
    """

    root: Path
    entries: list[Entry]
    config: Config | None
    remarks: list[str]


def find_layout(source: Path, split: str | None, root: Path | None, *, labelled: bool) -> Layout:
    """Find the pictures of a split, and the labels of each.

    Args:
        source: A folder, or the YAML file of a dataset.
        split: Name of the split, None where there is but one.
        root: Folder of the dataset where that is not the one of the YAML file.
        labelled: Whether there must be labels.

    Raises:
        SourceError: There is no picture, no label, several splits and none is asked for, or no such split.
    """
    file = find_config(source) if source.is_dir() else source
    config = read_config(file) if file else None
    if config:
        root = find_root(config, root)
        images = find_images(root, config.splits[_chosen(config, split)], config.file)
        names, remarks = images.names, images.remarks
    else:
        root, remarks = root or source, []
        names = _without_config(root, split)
    if config and config.masks_dir:
        return Layout(root, [Entry(stem_of(name), name, "") for name in names], config, remarks)
    entries, remark = _with_labels(root, names, labelled=labelled)
    return Layout(root, entries, config, [*remarks, *remark])


def _chosen(config: Config, split: str | None) -> str:
    """Return the name of a split as the description has it."""
    names = list(config.splits)
    if split is None:
        if len(names) > 1:
            raise SourceError(several_splits(str(config.file), names, ""))
        return names[0]
    alike = (name for name in names if canonical(name) == canonical(split))
    found = split if split in names else next(alike, None)
    if found is None:
        raise SourceError(no_such_split(str(config.file), split, names))
    return found


def _without_config(root: Path, split: str | None) -> list[str]:
    """Return the pictures of a folder of which no YAML file says anything; names of folders may tell splits."""
    names = [
        f"{prefix}{name}" for prefix, files in files_below(root) for name in files if is_image_file(name)
    ]  # fmt: skip
    if not names:
        raise SourceError(f"{root} holds no pictures: give the folder with images and labels")
    told = splits_of(names) if any("/" in name for name in names) else [frozenset()] * len(names)
    splits = in_order({one for some in told for one in some})
    if split is None and len(splits) < 2:
        return sorted(names)
    if split is None:
        raise SourceError(several_splits(str(root), splits, ""))
    wanted = canonical(split)
    chosen = [name for name, some in zip(names, told, strict=True) if {split, wanted} & some]
    if not chosen:
        raise SourceError(no_such_split(str(root), split, splits))
    return sorted(chosen)


def _with_labels(
    root: Path, names: Sequence[str], *, labelled: bool
) -> tuple[list[Entry], list[str]]:
    """Return entries, without labels where the file is not there, and a sentence of how many these are."""
    labels = [beside_images(name, "labels", ".txt") for name in names]
    there = _present(root, labels)
    entries = [
        Entry(stem_of(name), name, label if label in there else "")
        for name, label in zip(names, labels, strict=True)
    ]
    missing = sum(not one.annotation for one in entries)
    if missing == len(entries) and labelled:
        raise SourceError(
            f"{root} has labels for none of the {counted(len(entries), 'picture')} of the split ({labels[0]} and all others miss), "
            "which would train on background alone: open the folder of the pictures to have them without objects"
        )
    alone = _num_alone(root, names, there)
    remarks = told_of_unpaired(root, 0, alone, ".txt")
    if missing:
        remarks.append(
            f"{root} has no .txt for {missing} of the {counted(len(entries), 'picture')} of the split, which count as background"
        )
    return entries, remarks


def _present(root: Path, labels: Iterable[str]) -> set[str]:
    """Return the files of labels in the folders of some, whether or not a picture has them."""
    folders = {name.rpartition("/")[0] for name in labels}
    return {name for folder in folders for name in _names_in(root, folder) if _is_labels(name)}


def _num_alone(root: Path, names: Iterable[str], there: set[str]) -> int:
    """Count the labels, in folders of their own, of which no picture is there in any split."""
    folders = {name.rpartition("/")[0] for name in names}
    expected = {
        beside_images(name, "labels", ".txt")
        for folder in folders
        for name in _names_in(root, folder)
        if is_image_file(name)
    }
    return sum(name.rpartition("/")[0] not in folders for name in there - expected)


def _names_in(root: Path, folder: str) -> list[str]:
    """Return the names in a folder, relative to the root; none where it is not there."""
    path, prefix = root / folder, f"{folder}/" if folder else ""
    return [f"{prefix}{one.name}" for one in path.iterdir()] if path.is_dir() else []


def _is_labels(name: str) -> bool:
    return name.endswith(".txt") and name.rpartition("/")[2] != "classes.txt"
