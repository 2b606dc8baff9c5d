"""Search for the pictures, annotations, masks and split lists of a Pascal VOC dataset."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from readers.detect.splits import no_such_split
from readers.formats.boxes.checks import unpaired_warnings
from readers.formats.boxes.dataset import Entry, by_stem, names_below, stem_of
from readers.formats.named_splits import choose_name, inside_split
from readers.formats.text import filled_lines
from readers.plural import counted
from readers.sample import SourceError, is_image_file
from readers.storage.whole_files import read_text

_OF_CLASS = re.compile(r"(\S.*?)\s+(-1|0|1)")  # a line in the list of one class
_LABELS = {
    "1": 1,
    "-1": 0,
    "0": -1,
}  # label for the number in such a line, in which 0 stands for difficult objects
# Folder names of Pascal VOC, and of datasets that imitate it.
IMAGES = ("JPEGImages", "images", "Images")
ANNOTATIONS = ("Annotations/xmls", "annotations/xmls", "Annotations", "annotations")
MASKS = {"class": "SegmentationClass", "object": "SegmentationObject"}


def splits_in(folder: Path) -> dict[str, str]:
    """Return the lists in a folder, as a dict from name to the list's class, "" for a list of all classes.

    ``cat_train.txt`` is a list of the class ``cat`` if its first line ends in 1, -1 or 0.
    """
    list_classes = {}
    for path in sorted(folder.glob("*.txt")):
        class_name = path.stem.rpartition("_")[0]
        list_classes[path.stem] = class_name if class_name and _is_of_class(path) else ""
    return list_classes


def read_list(path: Path) -> list[tuple[str, int]]:
    """Return (name without ending, label) of each picture in a list.

    The label is -1 in a list of all classes. In a list of one class it is 1 for a picture with the class, 0 for one without
    it, and -1 for one in which all objects of the class are difficult, which the list marks by 0.

    Raises:
        SourceError: The list cannot be read, names no picture, or names one twice.
    """
    labels: dict[str, int] = {}
    of_class = _is_of_class(path)
    for number, name in filled_lines(read_text(path, "a list of pictures")):
        label = -1
        if of_class:
            match = _OF_CLASS.fullmatch(name)
            if match is None:
                raise SourceError(
                    f"{path}:{number} must be a picture and 1, -1 or 0, as the first line is"
                )
            name, label = match[1], _LABELS[match[2]]
        name = stem_of(name) if is_image_file(name) else name
        if name in labels:
            raise SourceError(f"{path}:{number} names {name} a second time: a split has it once")
        labels[name] = label
    if not labels:
        raise SourceError(f"{path} names no pictures: write a name without ending in each line")
    return list(labels.items())


def _is_of_class(path: Path) -> bool:
    if "_" not in path.stem:
        return False
    _, first = next(filled_lines(read_text(path, "a list of pictures")), (0, ""))
    return _OF_CLASS.fullmatch(first) is not None


class Layout(NamedTuple):
    """The files of a dataset and of one split.

    Attributes:
        root: Folder that all names are relative to.
        entries: File names of the split's samples, in the order of its list.
        annotations: Names of the annotation files of all splits.
        list_class: Name of the class, if the split is a list of one class; otherwise "".
        remarks: Warnings for the user.
    """

    root: Path
    entries: list[Entry]
    annotations: list[str]
    list_class: str = ""
    remarks: tuple[str, ...] = ()


def find_layout(folder: Path, split: str | None, masks: str | None) -> Layout:
    """Return the pictures of a split, and their annotations.

    Args:
        folder: ``VOC2012`` with ``JPEGImages`` and ``Annotations``, one of the folders around it, or a folder in
            which each annotation lies next to its picture.
        split: Name of the split; None if there is only one.
        masks: Kind of the masks, None for no masks. With masks, the lists in ``ImageSets/Segmentation`` are preferred.

    Raises:
        SourceError: There are no pictures with annotations, there are several years, several splits but `split` is None, or
            no such split.
    """
    root = find_devkit(folder)
    return _flat(folder, split) if root is None else _devkit(root, split, masks)


def find_devkit(folder: Path) -> Path | None:
    """Return the folder that holds Pascal VOC's folders of pictures and annotations, None if there is none.

    Raises:
        SourceError: There are folders of several years.
    """
    if _is_devkit(folder):
        return folder
    around = folder / "VOCdevkit" if (folder / "VOCdevkit").is_dir() else folder
    years = sorted(path for path in around.glob("VOC20[0-9][0-9]") if path.is_dir())
    if len(years) > 1:
        raise SourceError(
            f"{around} holds {', '.join(path.name for path in years)}: open one of them, such as {years[0]}"
        )
    return years[0] if years and _is_devkit(years[0]) else None


def mask_name(entry: Entry, kind: str) -> str:
    """Return the name of the mask file of a picture.

    Args:
        entry: Names of the picture's files.
        kind: Kind of the masks, a key of `MASKS`.
    """
    return f"{MASKS[kind]}/{stem_of(entry.image.partition('/')[2])}.png"


def _is_devkit(folder: Path) -> bool:
    return bool(_first(folder, IMAGES) and _first(folder, (*ANNOTATIONS, *MASKS.values())))


def _first(folder: Path, names: Iterable[str]) -> str:
    return next((name for name in names if (folder / name).is_dir()), "")


def _devkit(root: Path, split: str | None, masks: str | None) -> Layout:
    images = _inside(root, _first(root, IMAGES), is_image_file)
    folder = _first(root, ANNOTATIONS)
    annotations = _inside(root, folder, _is_xml) if folder else {}
    sets = root / "ImageSets"
    wanted = ("Segmentation", "Main") if masks else ("Main", "Segmentation")
    lists = next((sets / name for name in wanted if (sets / name).is_dir()), None)
    list_classes = splits_in(lists) if lists else {}
    if not list_classes:
        if split is not None:
            raise no_such_split(str(root), split, [])
        return _paired(root, images, annotations, sorted(annotations.values()))
    assert lists is not None
    plain = [name for name, of_class in list_classes.items() if not of_class]
    if split not in list_classes:  # a list of one class among lists of all must be named exactly
        split = choose_name({name: name for name in plain or list_classes}, split, root)
    listed = read_list(lists / f"{split}.txt")
    entries = [
        Entry(stem, images.get(stem, ""), annotations.get(stem, ""), label)
        for stem, label in listed
    ]
    return Layout(root, entries, sorted(annotations.values()), list_classes[split])


def _flat(root: Path, split: str | None) -> Layout:
    """Return the layout of a folder in which each annotation lies next to its picture, at any depth.

    Folders in root that are named like splits are splits.
    """
    names = list(names_below(root))
    images = by_stem(filter(is_image_file, names), root)
    annotations = {stem_of(name): name for name in filter(_is_xml, names)}
    everything = sorted(annotations.values())
    inside = inside_split(root, everything, split)
    images = {key: name for key, name in images.items() if inside(key)}
    annotations = {key: name for key, name in annotations.items() if inside(key)}
    return _paired(root, images, annotations, everything)


def _paired(
    root: Path, images: Mapping[str, str], annotations: Mapping[str, str], everything: list[str]
) -> Layout:
    """Return the layout of all pictures that have an annotation, with a warning about files without a counterpart.

    Args:
        root: The folder.
        images: Names of the pictures of the split, by stem.
        annotations: Names of the annotation files of the split, by stem.
        everything: Names of the annotation files of all splits.

    Raises:
        SourceError: No picture has an annotation.
    """
    both = [stem for stem in sorted(images) if stem in annotations]
    entries = [Entry(stem, images[stem], annotations[stem]) for stem in both]
    if not entries:
        raise SourceError(
            f"{root} has {counted(len(images), 'picture')} and {counted(len(annotations), '.xml file')}, none of which belong together: "
            "give a folder with a.xml beside a.jpg, or with JPEGImages/a.jpg and Annotations/a.xml"
        )
    counts = len(images) - len(both), len(annotations) - len(both)
    return Layout(
        root, entries, everything, remarks=tuple(unpaired_warnings(root, *counts, ".xml"))
    )


def _is_xml(name: str) -> bool:
    return name.lower().endswith(".xml")


def _inside(root: Path, folder: str, fits: Callable[[str], bool]) -> dict[str, str]:
    """Return the names of files in a folder that `fits` accepts, relative to root, by stem relative to the folder."""
    found = by_stem(filter(fits, names_below(root, folder)), root)
    return {stem[len(folder) + 1 :]: name for stem, name in found.items()}
