"""Warnings about box annotations of Pascal VOC, YOLO and DOTA next to images that are opened as plain images."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from readers.formats.boxes.dataset import head_of
from readers.formats.dota.labels import looks_like_labels
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.yolo.config import looks_like_config
from readers.formats.yolo.layout import file_of_picture

_YOLO = re.compile(rb"\s*[0-9]+(?:\s+[01]?\.[0-9]+(?:[eE]-?[0-9]+)?|\s+[01]){4,}\s*")


def warn_unread_voc(root: Path, images: Sequence[Path]) -> list[str]:
    """Return one warning if an image has a Pascal VOC annotation that is not read; see `Format.warn_unread`."""
    names = [
        (image, folder / f"{image.stem}.xml")
        for image in images
        for folder in (image.parent, image.parent.parent / "Annotations")
    ]
    return [
        f"{root} is read without the boxes of Pascal VOC ({path} and its like): to train on them use open_dataset({above!r}, "
        "format='voc')"
        for path, above in _first(names, looks_like_annotation)
    ]


def warn_unread_yolo(root: Path, images: Sequence[Path]) -> Iterator[str]:
    """Yield one warning if an image has a YOLO annotation that is not read; see `Format.warn_unread`."""
    names = [
        (image, path)
        for image in images
        for path in (image.with_suffix(".txt"), Path(file_of_picture(str(image), "labels", ".txt")))
    ]
    for path, above in _first(names, lambda head: _YOLO.fullmatch(head.partition(b"\n")[0])):
        has_classes = any(map(looks_like_config, Path(above).glob("*.y*ml")))
        classes = "" if has_classes else ", classes=['cat', 'dog']"
        how = f"to train on them use open_dataset({above!r}, format='yolo'{classes})"
        yield f"{root} is read without the boxes of YOLO ({path} and its like): {how}"


def warn_unread_dota(root: Path, images: Sequence[Path]) -> list[str]:
    """Return one warning if an image has a DOTA annotation that is not read; see `Format.warn_unread`."""
    names = [
        (image, image.parent.parent / folder / f"{image.stem}.txt")
        for image in images
        for folder in ("labelTxt", "annfiles")
    ]
    return [
        f"{root} is read without the oriented boxes of DOTA ({path} and its like): to train on them use open_dataset({above!r}, "
        "format='dota')"
        for path, above in _first(names, looks_like_labels)
    ]


def _first(
    pairs: Iterable[tuple[Path, Path]], fits: Callable[[bytes], object]
) -> list[tuple[Path, str]]:
    """Return the first annotation file that fits, in a list of at most one.

    Args:
        pairs: Paths of an image and of the annotation file that it may have.
        fits: Returns whether the first bytes of a file are those of an annotation.

    Returns:
        Path of the annotation, and the deepest folder that holds it and its image.
    """
    found = (pair for pair in pairs if fits(head_of(pair[1])))
    return [(path, os.path.commonpath([image, path])) for image, path in islice(found, 1)]
