"""COCO files about the images in a folder, found near it by their names and the ends of their text."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from readers.detect.listed_folder import ListedFolder
from readers.detect.splits import split_alone
from readers.sample import is_image_file
from readers.storage.unreadable import OptionalFile
from readers.storage.whole_files import open_regular, read_head

_ROBOFLOW = "_annotations.coco.json"
_LOOKED_AT = 10_000  # names of a folder; listing more on a network disk takes seconds
_MOST_FILES = 8  # files whose text is read
_PART_BYTES = 1 << 16  # bytes that are read at either end of a file
_IMAGES, _FILE_NAME = re.compile(rb'"images"\s*:\s*\['), b'"file_name"'
_OBJECTS, _IMAGE_ID = re.compile(rb'"annotations"\s*:\s*\['), b'"image_id"'
_NAMED = re.compile(rb'"file_name"\s*:\s*"([^"\\\\]+)"')
_MOST_NAMES = 20  # images that are looked for
_FOLDERS_OF_IMAGES = ("images", "imgs", "img", "photos", "pictures", "data")


def detect_roboflow(folder: ListedFolder, split: str | None) -> list[str] | None:
    """Return the file that Roboflow writes beside images; see `Format.detect`."""
    is_there = _ROBOFLOW in folder.files and split is None
    return [str(folder.path / _ROBOFLOW)] if is_there else None


def warn_unread(root: Path, _images: Sequence[Path]) -> Iterator[str]:
    """Yield warnings about COCO files of the images in a folder; see `Format.warn_unread`."""
    for path in coco_files(root):
        yield f"{root} is read without the objects in {path}: open that file to have them, {how_to_open(path, root)}"


def coco_files(root: Path) -> list[Path]:
    """Return the COCO files about the images in a folder, or in folders in it.

    They lie in the folder, in its folder ``annotations``, or next to a folder called ``images`` or like a split.

    Args:
        root: The folder.
    """
    beside, inside = root.parent / "annotations", root / "annotations"
    named = [*beside.glob(f"instances_{root.name}.json"), *inside.glob("instances_*.json")]
    around: list[Path] = []
    if root.name.lower() in _FOLDERS_OF_IMAGES:
        around = [*_json_files(root.parent), *_json_files(beside)]
    elif split_alone(root.name):
        around = [*_json_files(root.parent), *_json_files(beside)]
        around = [path for path in around if path.stem.split("_")[-1] == root.name]
    around = [path for path in around[:_MOST_FILES] if _names_images(path, root)]
    others = [*_json_files(root), *_json_files(inside), *around]
    unnamed = [path for path in dict.fromkeys(others) if path not in named]
    return sorted([*named, *filter(looks_like_coco, unnamed[:_MOST_FILES])])


def how_to_open(path: Path, root: Path) -> str:
    """Return the call that opens a COCO file with the images of a folder.

    Args:
        path: The file.
        root: The folder, as for `coco_files`.
    """
    near = (path.parent, path.parent.parent)
    ends = path.stem.split("_")[-1]
    usual = {folder / name for folder in near for name in (ends, "images", f"images/{ends}")}
    holds_folder = any(folder.parent == root and folder.is_dir() for folder in usual)
    is_found = root in usual or holds_folder or path.parent == root
    return f"open_dataset({str(path)!r}{'' if is_found else f', images={str(root)!r}'})"


def looks_like_coco(path: Path) -> bool:
    """Return whether the first and last 64 KiB of a file contain keys of a list of images and of a list of objects."""
    with OptionalFile(path), open_regular(path) as file:
        text = file.read(_PART_BYTES)
        if not text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
            return False
        file.seek(max(path.stat().st_size - _PART_BYTES, len(text)))
        text += b"\n" + file.read(_PART_BYTES)
        # In a long file the second list begins where nobody looks; of it there are entries at the end.
        images, objects = _IMAGES.search(text), _OBJECTS.search(text)
        lists_images, lists_objects = images or _FILE_NAME in text, objects or _IMAGE_ID in text
        return bool((images or objects) and lists_images and lists_objects)
    return False


def _names_images(path: Path, root: Path) -> bool:
    """Whether one of the first file names in a file is that of an image in the folder."""
    named = _NAMED.findall(read_head(path, _PART_BYTES))[:_MOST_NAMES]
    return any((root / name.decode("utf-8", "replace")).is_file() for name in named)


def _json_files(folder: Path) -> list[Path]:
    """Return the JSON files in a folder that do not belong to one image each, sorted."""
    with OptionalFile(folder):
        names = [path.name for path in islice(folder.iterdir(), _LOOKED_AT)]
        stems = {name.rpartition(".")[0] for name in names if is_image_file(name)}
        return [
            folder / name
            for name in sorted(names)
            if name.lower().endswith(".json") and name[:-5] not in stems
        ]
    return []
