"""Telling by what lies in a folder that it holds pictures annotated in the manner of Pascal VOC, YOLO or LabelMe."""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from readers.formats.boxes.listing import stem_of
from readers.formats.splits import split_alone
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.voc.layout import ANNOTATIONS, MASKS, find_devkit
from readers.formats.yolo.config import find_config
from readers.sample import SourceError, is_image_file

_LOOKED_AT = 1000  # names of a folder
_TRIED = 3  # files
_HEAD_BYTES = 4096
_MOST_BYTES = 64 << 20


def detect_annotated(folder: Path) -> str | None:
    """Return the name of the format of a folder, None where it is none of these.

    Raises:
        SourceError: It may be several.
    """
    hits = {
        "yolo": find_config(folder) is not None,
        "voc": _is_devkit(folder) or any(map(_holds_voc, _folders(folder))),
        "labelme": any(map(_holds_labelme, _folders(folder))),
    }
    names = [name for name, hit in hits.items() if hit]
    if len(names) > 1:
        raise SourceError(
            f"{folder} holds annotations of {' and of '.join(names)}: say which are meant, format={names[0]!r}"
        )
    return names[0] if names else None


def _folders(folder: Path) -> Iterator[Path]:
    """Yield a folder, and the folders of splits in it."""
    yield folder
    with suppress(OSError):
        inside = sorted(path.name for path in islice(folder.iterdir(), _LOOKED_AT) if path.is_dir())
        yield from (folder / name for name in inside if split_alone(name))


def _is_devkit(folder: Path) -> bool:
    """Whether there are folders of pictures and of XML, or of pictures and masks, as Pascal VOC calls them."""
    root = find_devkit(folder)
    if root is None:
        return False
    inside = [root / name for name in ANNOTATIONS]
    files = (path / name for path in inside for name in sorted(_names(path)))
    xml = islice((path for path in files if path.suffix.lower() == ".xml"), _TRIED)
    masks = any((root / name).is_dir() for name in MASKS.values())
    return masks or any(looks_like_annotation(_head(path)) for path in xml)


def _holds_voc(folder: Path) -> bool:
    """Whether XML of this kind lies beside its picture."""
    names = _names(folder)
    stems = {stem_of(name) for name in names if is_image_file(name)}
    found = (name for name in sorted(names) if name.lower().endswith(".xml"))
    beside = islice((name for name in found if stem_of(name) in stems), _TRIED)
    return any(looks_like_annotation(_head(folder / name)) for name in beside)


def _holds_labelme(folder: Path) -> bool:
    found = islice((name for name in sorted(_names(folder)) if name.endswith(".json")), _TRIED)
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


def _names(folder: Path) -> list[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, _LOOKED_AT) if entry.name[0] != "."]
    return []
