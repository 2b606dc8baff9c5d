"""Warn about files of labels or boxes that lie beside images but are not read, and name the call that reads them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from readers.detect.registry import FORMATS
from readers.sample import is_image_file
from readers.storage.unreadable import OptionalFile
from readers.storage.whole_files import read_head

_LOOKED_AT = 64  # names of a folder
_CVAT = "annotations.xml"  # of its own format for images, which no reader of this package knows
_HEAD_BYTES = 4096


def ignored_annotation_warnings(root: Path) -> Iterator[str]:
    """Yield warnings about annotation files, in or around a folder of images, that are not read.

    Only a few places are checked: next to the first images, and where the tools of other formats write annotations.
    """
    images = list(_first_images(root))
    for kind in FORMATS.values():
        yield from kind.ask("warn_unread", root, images) or ()
    if (root / _CVAT).is_file() and b"<annotations>" in read_head(root / _CVAT, _HEAD_BYTES):
        yield (
            f"{root} is read without the objects in {root / _CVAT}: export them from CVAT as COCO, YOLO or Pascal VOC to have them"
        )


def _first_images(root: Path) -> Iterator[Path]:
    """Yield the path of one image in the folder itself, and of one image in each of its first four subfolders."""
    with OptionalFile(root):
        names = sorted(path.name for path in islice(root.iterdir(), _LOOKED_AT))
        inside = [root / name for name in names if name[0] != "." and (root / name).is_dir()]
        for folder in [root, *inside[:4]]:
            several = islice(folder.iterdir(), _LOOKED_AT)
            image = min((path.name for path in several if is_image_file(path.name)), default="")
            if image and image[0] != ".":
                yield folder / image
