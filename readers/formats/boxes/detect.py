"""Telling by what lies in a folder that it holds pictures annotated in the manner of Pascal VOC, YOLO or LabelMe."""

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from readers.formats.boxes.listing import stem_of
from readers.formats.splits import split_alone
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.voc.layout import ANNOTATIONS, IMAGES, MASKS, find_devkit
from readers.formats.yolo.config import find_config
from readers.sample import IMAGE_FIELDS, SourceError

_YAML = re.compile(r"\.ya?ml$", re.IGNORECASE)
_YEAR = re.compile("VOC20[0-9]{2}")
_ENDINGS = (*IMAGE_FIELDS, *(name.upper() for name in IMAGE_FIELDS))
_TRIED = 3  # files
_HEAD_BYTES = 4096
_MOST_BYTES = 64 << 20


def detect_annotated(folder: Path, folders: Sequence[str], files: Sequence[str]) -> str | None:
    """Return the name of the format of a folder, None where it is none of these.

    Args:
        folder: The folder.
        folders: Names of the folders in it.
        files: Names of the files in it.

    Raises:
        SourceError: It may be several.
    """
    inside = [(folder, files)]
    for name in folders:
        if split_alone(name):
            inside.append((folder / name, next(os.walk(folder / name), ("", [], []))[2]))
    hits = {
        "yolo": any(_YAML.search(name) for name in files) and find_config(folder) is not None,
        "voc": _is_devkit(folder, folders) or any(_holds_voc(*one) for one in inside),
        "labelme": any(_holds_labelme(*one) for one in inside),
    }
    names = [name for name, hit in hits.items() if hit]
    if len(names) > 1:
        raise SourceError(
            f"{folder} holds annotations of {' and of '.join(names)}: say which are meant, format={names[0]!r}"
        )
    return names[0] if names else None


def _is_devkit(folder: Path, folders: Sequence[str]) -> bool:
    """Whether there are folders of pictures and of XML, or of pictures and masks, as Pascal VOC calls them."""
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
    """Whether XML of this kind lies beside its picture."""
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
    return any(looks_like_annotation(_head(folder / name)) for name in found)


def _holds_labelme(folder: Path, files: Sequence[str]) -> bool:
    found = sorted(name for name in files if name.endswith(".json") and name[0] != ".")[:_TRIED]
    return any(_is_labelme(folder / name) for name in found)


def _is_labelme(path: Path) -> bool:
    """Whether JSON has shapes and the path of a picture, wherever in it they stand."""
    if not _head(path).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    with suppress(OSError), path.open("rb") as file:
        text = file.read(_MOST_BYTES)
        return b'"shapes"' in text and b'"imagePath"' in text
    return False


def _head(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_HEAD_BYTES)
    return b""
