"""Warnings about likely mistakes in the layout of a folder of classes."""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from readers.formats.detect_folder import FRAME
from readers.formats.registry import Format
from readers.formats.splits import split_alone
from readers.sample import is_image_file

_LOOKED_AT = 1000  # names of a folder
_TARGETS = ("masks", "mask", "labels", "annotations", "labelmaps", "segmentation")
_LEFT_OUT = (
    *(".jfif", ".jpe", ".jp2", ".j2k", ".jxl", ".avif", ".heic", ".heif", ".dng", ".cr2", ".nef", ".arw", ".psd"),
    *(".mp4", ".mkv", ".mov", ".avi", ".webm", ".dcm", ".exr", ".hdr", ".svg", ".pdf"),
)  # fmt: skip


def doubts(kind: Format, folder: str) -> Iterator[str]:
    """Yield sentences about a folder of classes that somebody should hear before a training.

    Some names in the folder and in its classes are looked at.

    Args:
        kind: The kind of dataset that was opened.
        folder: Its path.
    """
    if kind.name != "folder":
        return
    root = Path(folder).absolute()
    names = sorted(name for name in _names(root) if name[0] != ".")
    classes = [name for name in names if (root / name).is_dir()]
    said = [name for name in classes if split_alone(name)]
    if said and len(classes) > 1:
        yield (
            f"{root} has the class {said[0]!r}, which is called like a split: where it is one, move it out of the folder "
            "of the classes"
        )
    targets = [name for name in classes if name.lower() in _TARGETS]
    if targets:
        yield (
            f"{root} has the class {targets[0]!r}: its images are taken for photographs; a mask is read when it lies beside its "
            "photograph, PHOTO.mask.png beside PHOTO.jpg"
        )
    if len(classes) == 1 and not any(map(is_image_file, names)):
        inside = sorted(_names(root / classes[0]))
        deeper = [name for name in inside if (root / classes[0] / name).is_dir()]
        if len(deeper) > 1 and not any(map(is_image_file, inside)):
            yield (
                f"{root} has the one class {classes[0]!r}, whose images lie in folders ({', '.join(deeper[:3])}): where these "
                f"are the classes, open {root / classes[0]}"
            )
    numbered = _numbered(root / classes[0]) if classes else ""
    if numbered:
        yield (
            f"{root} holds pictures that are called like frames of a video ({numbered}), but their numbers do not begin at 0 or 1, "
            "so they are read as images of classes: say format='frame-folder' for videos"
        )
    others = Counter(
        Path(name).suffix.lower()
        for folder in (root, *(root / name for name in classes))
        for name in _names(folder)
        if name.lower().endswith(_LEFT_OUT)
    )
    if others:
        told = ", ".join(f"{number} of {suffix}" for suffix, number in others.most_common(4))
        yield f"{root} holds files of kinds that are left out ({told}): convert them to JPEG or PNG to have them"


def _numbered(folder: Path) -> str:
    """Return the first picture of the first folder in a folder, if all there are numbered like frames without gaps."""
    inside = sorted(name for name in _names(folder) if (folder / name).is_dir())
    names = sorted(name for name in _names(folder / inside[0]) if name[0] != ".") if inside else []
    found = [FRAME.fullmatch(name) for name in names]
    numbers = [int(one[1]) for one in found if one]
    is_row = len(numbers) == len(names) > 2 and numbers == [
        *range(numbers[0], numbers[0] + len(names))
    ]
    return names[0] if is_row and numbers[0] > 1 else ""


def _names(folder: Path) -> list[str]:
    """Return some of the names in a folder, none where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, _LOOKED_AT)]
    except OSError:
        return []
