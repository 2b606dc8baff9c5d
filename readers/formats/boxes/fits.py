"""Detection of folders in the layout of Pascal VOC, YOLO, LabelMe or DOTA, by the files in them."""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from readers.detect.splits import split_alone
from readers.formats.boxes.dataset import head_of, names_below, stem_of
from readers.formats.dota.labels import looks_like_labels
from readers.formats.dota.layout import LABELS, label_folder
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.voc.layout import ANNOTATIONS, IMAGES, MASKS, find_devkit
from readers.formats.yolo.config import find_config
from readers.sample import IMAGE_FIELDS
from readers.storage.unreadable import listed
from readers.storage.whole_files import read_head

_YEAR = re.compile("VOC20[0-9]{2}")
_ENDINGS = (*IMAGE_FIELDS, *(name.upper() for name in IMAGE_FIELDS))
_TRIED = 3  # files of a folder that are opened: detection must stay fast
# Bytes of a JSON file that are searched: imageData of several MB may precede the other entries.
_MOST_BYTES = 64 << 20


def is_voc(folder: Path) -> bool:
    """Return whether a folder holds Pascal VOC data: its usual folders, or its XML files next to pictures, also per split."""
    return _is_devkit(folder) or any(_holds_voc(*one) for one in _listings(folder))


def is_yolo(folder: Path) -> bool:
    """Return whether a folder holds the YAML file of a YOLO dataset."""
    return find_config(folder) is not None


def is_labelme(folder: Path) -> bool:
    """Return whether a folder, or a folder of a split in it, holds LabelMe's JSON files."""
    return any(_holds_labelme(*one) for one in _listings(folder))


def is_dota(folder: Path) -> bool:
    """Return whether a folder, or a folder of a split in it, holds folders of DOTA's label files."""
    places = [
        (path, place)
        for path, _ in _listings(folder)
        for place in filter(LABELS.fullmatch, listed(path)[0])
    ]
    return any(
        looks_like_labels(head_of(path / name))
        for path, place in places
        for name in islice(filter(label_folder, names_below(path, place)), _TRIED)
    )


def _listings(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield the folder itself and each folder in it that is named like a split, with the names of their files."""
    folders, files = listed(folder)
    yield folder, files
    for name in sorted(filter(split_alone, folders)):
        yield folder / name, listed(folder / name)[1]


def _is_devkit(folder: Path) -> bool:
    """Return whether a folder has Pascal VOC's folders: one of pictures, and one of XML files or of masks."""
    folders, _ = listed(folder)
    if not any(name in IMAGES or name == "VOCdevkit" or _YEAR.fullmatch(name) for name in folders):
        return False
    root = find_devkit(folder)
    if root is None:
        return False
    paths = [root / name for name in (*ANNOTATIONS, *MASKS.values())]
    return any(
        path.name in MASKS.values() or _any_xml(path, [one.name for one in path.iterdir()])
        for path in paths
        if path.is_dir()
    )


def _holds_voc(folder: Path, files: Sequence[str]) -> bool:
    """Return whether a folder holds an XML file of Pascal VOC next to the picture of the same name."""
    there = {*files}
    beside = [
        name
        for name in files
        if name.lower().endswith(".xml")
        and any(f"{stem_of(name)}.{ending}" in there for ending in _ENDINGS)
    ]
    return _any_xml(folder, beside)


def _any_xml(folder: Path, names: Sequence[str]) -> bool:
    found = sorted(name for name in names if name.lower().endswith(".xml"))[:_TRIED]
    return any(looks_like_annotation(head_of(folder / name)) for name in found)


def _holds_labelme(folder: Path, files: Sequence[str]) -> bool:
    found = sorted(name for name in files if name.endswith(".json") and name[0] != ".")[:_TRIED]
    return any(_is_labelme(folder / name) for name in found)


def _is_labelme(path: Path) -> bool:
    """Return whether a JSON file contains the names ``"shapes"`` and ``"imagePath"`` anywhere."""
    head = head_of(path)
    encoding = json.detect_encoding(head)
    if not head.decode(encoding, "ignore").lstrip().startswith("{"):
        return False
    text = read_head(path, _MOST_BYTES).decode(encoding, "ignore")
    return '"shapes"' in text and '"imagePath"' in text
