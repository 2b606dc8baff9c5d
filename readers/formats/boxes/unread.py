"""Warnings about boxes of Pascal VOC and YOLO beside images that are read without them."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from readers.formats.boxes.dataset import head_of
from readers.formats.voc.annotation import looks_like_annotation
from readers.formats.yolo.config import looks_like_config

_YOLO = re.compile(r"\s*[0-9]+(?:\s+[01]?\.[0-9]+(?:[eE]-?[0-9]+)?|\s+[01]){4,}\s*")


def warn_unread_voc(root: Path, images: Sequence[Path]) -> Iterator[str]:
    """Yield a warning about the first annotation of Pascal VOC; see `Format.warn_unread`."""
    for image in images:
        name, folder = f"{image.stem}.xml", image.parent
        for path, above in (
            (folder / name, folder),
            (folder.parent / "Annotations" / name, folder.parent),
        ):
            if looks_like_annotation(head_of(path)):
                how = f"to train on them use open_dataset({str(above)!r}, format='voc')"
                yield f"{root} is read without the boxes of Pascal VOC ({path} and its like): {how}"
                return


def warn_unread_yolo(root: Path, images: Sequence[Path]) -> Iterator[str]:
    """Yield a warning about the first text file of YOLO; see `Format.warn_unread`."""
    for image in images:
        name, parts = f"{image.stem}.txt", list(image.parent.parts)
        texts = [(image.parent / name, image.parent)]
        if "images" in parts:  # .../images/train/a.jpg has .../labels/train/a.txt
            last = len(parts) - 1 - parts[::-1].index("images")
            above = Path(*parts[:last])
            texts.append((Path(above, "labels", *parts[last + 1 :], name), above))
        for path, above in texts:
            if _YOLO.fullmatch(str(head_of(path).partition(b"\n")[0], "utf-8", "replace")):
                has_classes = any(map(looks_like_config, above.glob("*.y*ml")))
                classes = "" if has_classes else ", classes=['cat', 'dog']"
                how = f"to train on them use open_dataset({str(above)!r}, format='yolo'{classes})"
                yield f"{root} is read without the boxes of YOLO ({path} and its like): {how}"
                return
