"""Warnings about label and box files beside images that are not read, with the call that reads them."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from readers.detect.registry import Format
from readers.formats.boxes.dataset import head_of
from readers.formats.coco.beside import coco_files, how_to_open
from readers.formats.openimages.dataset import fits
from readers.formats.path_table.detect import tables_about
from readers.formats.path_table.image_files import find_image_files
from readers.formats.path_table.metadata_folder import (
    about_files,
    about_objects,
    image_column,
)
from readers.formats.path_table.read import read_json_lines
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.yolo.config import looks_like_config
from readers.sample import SourceError, is_image_file
from readers.storage.unreadable import OptionalFile

_YOLO = re.compile(r"\s*[0-9]+(?:\s+[01]?\.[0-9]+(?:[eE]-?[0-9]+)?|\s+[01]){4,}\s*")
_LOOKED_AT = 64  # names of a folder
_METADATA = "metadata.jsonl"
_CVAT = "annotations.xml"  # of its own format for images
_MOST_BYTES = 1 << 25  # of a file that is read for a warning


def ignored_annotation_warnings(kind: Format, folder: str) -> list[str]:
    """Return warnings about annotations of the images of a folder that are not read.

    A few names are checked: beside the first images, and where the tools of Pascal VOC, YOLO, COCO and Hugging Face write
    annotations.

    Args:
        kind: The kind of dataset that was opened.
        folder: Its path.
    """
    if kind.name == "manifest" and Path(folder).name == _METADATA:
        return _unnamed(Path(folder).absolute())
    if kind.name != "folder":
        return []
    root = Path(folder).absolute()
    found = []
    for inside, image in _first_images(root):
        beside = _annotation(inside, image)
        if beside:
            found.append(f"{root} is read without {beside}")
            break
    for name in ("metadata.csv", "metadata.parquet"):
        if (root / name).is_file():
            found.append(
                f"{root} is read without {root / name}: to have what it says of the images, name them in a column file_name"
            )
    for path in tables_about(root):
        where = "" if path.parent == root else f", root={str(root)!r}"
        found.append(
            f"{root} is read without the rows of {path}: open that file to have them, open_dataset({str(path)!r}{where})"
        )
    if (root / _CVAT).is_file() and b"<annotations>" in head_of(root / _CVAT):
        found.append(
            f"{root} is read without the objects in {root / _CVAT}: export them from CVAT as COCO, YOLO or Pascal VOC to have them"
        )
    for path in _open_images(root):
        found.append(
            f"{root} is read without the objects in {path}: open that file to have them, open_dataset({str(path)!r}, images=FOLDER)"
        )
    for path in coco_files(root):
        found.append(
            f"{root} is read without the objects in {path}: open that file to have them, {how_to_open(path, root)}"
        )
    return found


def _unnamed(path: Path) -> list[str]:
    """Return warnings about images that a metadata.jsonl does not name, and about names without an image."""
    if path.stat().st_size > _MOST_BYTES:
        return []
    try:
        table = read_json_lines(path)
        names = find_image_files(table, image_column(table), path.parent, strict=False)
    except SourceError:  # of another kind, or with bad lines, which are bad samples
        return []
    return [*about_files(path.parent, str(path), names), *about_objects(table)]


def _first_images(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield an image of the folder itself, or of the first folders in it."""
    with OptionalFile(root):
        names = sorted(path.name for path in islice(root.iterdir(), _LOOKED_AT))
        inside = [root / name for name in names if name[0] != "." and (root / name).is_dir()]
        for folder in [root, *inside[:4]]:
            several = islice(folder.iterdir(), _LOOKED_AT)
            image = min((path.name for path in several if is_image_file(path.name)), default="")
            if image and image[0] != ".":
                yield folder, image


def _annotation(folder: Path, image: str) -> str:
    """Describe the annotation of an image by Pascal VOC or YOLO, and the call that reads it; "" if there is none."""
    stem = image.rpartition(".")[0]
    for path, root in (
        (folder / f"{stem}.xml", folder),
        (folder.parent / "Annotations" / f"{stem}.xml", folder.parent),
    ):
        if looks_like_annotation(head_of(path)):
            return f"the boxes of Pascal VOC ({path} and its like): {_opened(root, 'voc')}"
    texts = [(folder / f"{stem}.txt", folder)]
    parts = list(folder.parts)
    if "images" in parts:  # .../images/train/a.jpg has .../labels/train/a.txt
        last = len(parts) - 1 - parts[::-1].index("images")
        root = Path(*parts[:last])
        texts.append((Path(root, "labels", *parts[last + 1 :], f"{stem}.txt"), root))
    for path, root in texts:
        if _YOLO.fullmatch(str(head_of(path).partition(b"\n")[0], "utf-8", "replace")):
            return f"the boxes of YOLO ({path} and its like): {_opened(root, 'yolo')}"
    return ""


def _opened(root: Path, format: str) -> str:
    """Return the call that reads the objects."""
    has_classes = format == "voc" or any(map(looks_like_config, root.glob("*.y*ml")))
    classes = "" if has_classes else ", classes=['cat', 'dog']"
    return f"to train on them use open_dataset({str(root)!r}, format={format!r}{classes})"


def _open_images(root: Path) -> list[Path]:
    """Return a table of boxes of OpenImages in a folder; an empty list if there is none."""
    with OptionalFile(root):
        return [path for path in sorted(root.glob("*-bbox.csv")) if fits(path)][:1]
    return []
