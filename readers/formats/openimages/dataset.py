"""Datasets of OpenImages: CSV tables of boxes or image labels, with the images in a folder."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from readers.detect.splits import split_of
from readers.formats.boxes.checks import read_each, read_flag
from readers.formats.columns import CORNERS, to_payload
from readers.formats.files.described import DescribedFiles, FilesBelow, folder_with, lines_of
from readers.formats.text import finite_number
from readers.image.header import read_header
from readers.sample import (
    BadSample,
    PathLike,
    Payload,
    Sample,
    SourceError,
)
from readers.storage.blob import Content
from readers.storage.index import Entry, Scan
from readers.storage.unreadable import OptionalFile
from readers.storage.whole_files import read_head, read_text

KEY, LABEL, CONFIDENCE = "ImageID", "LabelName", "Confidence"
SIDES = ("XMin", "YMin", "XMax", "YMax")
# Columns of flags, and their names in the field json.
_FLAGS = {
    "IsOccluded": "occluded",
    "IsTruncated": "truncated",
    "IsGroupOf": "group_of",
    "IsDepiction": "depiction",
    "IsInside": "inside",
}
_HEADERS = ("LabelName", "MID")  # some of the files of descriptions have a header
_MOST_TRIED = 256  # images that are looked for in a folder, which may hold only a subset
_HEAD_BYTES = 4096  # enough for the header row


def fits(path: Path) -> bool:
    """Return whether a file is a table of OpenImages, by its header."""
    columns = read_header_row(read_head(path, _HEAD_BYTES))
    return KEY in columns and LABEL in columns


def warn_unread(root: Path, _images: Sequence[Path]) -> Iterator[str]:
    """Yield a warning if a folder of images holds a table of their boxes that is not read; see `Format.warn_unread`."""
    found = None
    with OptionalFile(root):
        found = next((path for path in sorted(root.glob("*-bbox.csv")) if fits(path)), None)
    if found:
        yield (
            f"{root} is read without the objects in {found}: open that file to have them, "
            f"open_dataset({str(found)!r}, images=FOLDER)"
        )


def read_header_row(head: bytes) -> list[str]:
    """Return the column names in the header row, the first line of `head`."""
    line = head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0].strip()
    return [name.strip() for name in str(line, "utf-8", "replace").split(",")]


def find_images(content: Content, name: str) -> Iterator[Entry]:
    """Yield an index entry for each image of a table, in the order of first appearance.

    The fields ``rows.0``, ``rows.1`` and so on of an entry are the byte ranges of the image's rows.

    Raises:
        SourceError: The file is no supported table of OpenImages, or has no rows.
    """
    columns = read_header_row(bytes(content[:_HEAD_BYTES]))
    wanted = (KEY, LABEL, *(SIDES if SIDES[0] in columns else (CONFIDENCE,)))
    missing = [column for column in wanted if column not in columns]
    is_masks = "MaskPath" in columns
    if missing or is_masks:
        what = "masks, which are not read from it" if is_masks else f"no column {missing[0]}"
        raise SourceError(
            f"{name} has {what}: give OpenImages' table of boxes ({', '.join((KEY, LABEL, *SIDES))}) or of labels of images "
            f"({', '.join((KEY, LABEL, CONFIDENCE))})"
        )
    column_number = columns.index(KEY)
    runs: dict[bytes, list[list[int]]] = {}
    last: bytes | None = None
    for start, stop in islice(lines_of(content), 1, None):  # skips the header
        line = bytes(content[start:stop])
        if not line.strip():
            continue
        image = line.split(b",", column_number + 1)[column_number].strip()
        if image == last:
            runs[image][-1][1] = stop
        else:
            runs.setdefault(image, []).append([start, stop])
        last = image
    if not runs:
        raise SourceError(f"{name} has no rows: give a table with boxes or labels")
    for image, some in runs.items():
        rows = tuple((f"rows.{at}", start, stop) for at, (start, stop) in enumerate(some))
        yield Entry(str(image, "utf-8", "replace"), rows)


def read_descriptions(path: Path) -> dict[str, str]:
    """Return a dict from label to class name, in the order of a table of descriptions (with or without header).

    Raises:
        SourceError: The table cannot be read, is empty, or has a label twice.
    """
    try:
        rows = [
            row
            for row in csv.reader(read_text(path, "a table of descriptions").splitlines())
            if row
        ]
    except csv.Error as error:
        raise SourceError(f"{path} cannot be read as a table of descriptions: {error}") from None
    rows = rows[1:] if rows and rows[0][0] in _HEADERS else rows
    names = {row[0]: row[1] for row in rows if len(row) > 1}
    if not names or len(names) < len(rows):
        raise SourceError(
            f"{path} must have rows of a label and its name, each label once: restore it"
        )
    return names


def to_boxes(
    rows: Sequence[Mapping[str, str]],
    labels: Mapping[str, int],
    size: tuple[int, int],
    *,
    crowd: bool,
) -> dict[str, list[Any]]:
    """Return the content of the field json for the rows of one image; see `OpenImagesDataset`.

    Args:
        rows: The rows of the image, each a dict from column name to text.
        labels: Class number by label.
        size: Height and width of the upright image.
        crowd: Whether boxes around groups of objects are included.

    Raises:
        ValueError: A row has no valid box, or a label without a description.
    """
    numbered = [*enumerate(rows)]

    def read(make: Callable[[Mapping[str, str]], Any]) -> list[Any]:
        return read_each(
            numbered, lambda one: make(one[1]), lambda _, one: f"box {one[0]} of {one[1][KEY]}"
        )

    pairs = zip(numbered, read(_is_group), strict=True)
    numbered = [one for one, is_group in pairs if crowd or not is_group]
    targets: dict[str, list[Any]] = {"boxes": read(lambda row: _box(row, size))}
    targets["labels"] = read(lambda row: _class_of(row, labels))
    targets["iscrowd"] = read(_is_group)
    for column in [one for one in _FLAGS if rows and one in rows[0]]:
        targets[_FLAGS[column]] = read(partial(_flag, column))
    return targets


def to_image_labels(
    rows: Sequence[Mapping[str, str]], labels: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the class numbers that people verified for an image, in the lists ``present`` and ``absent``.

    Raises:
        ValueError: A row has another confidence than 0 or 1, or a label without a description.
    """
    found: dict[str, list[int]] = {"present": [], "absent": []}
    for row in rows:
        confidence = finite_number(row.get(CONFIDENCE), CONFIDENCE)
        if confidence not in (0, 1):
            raise ValueError(
                f"a label has the confidence {confidence}, and 1 (there) or 0 (not there) were verified: give the table of "
                "labels that people verified"
            )
        found["present" if confidence else "absent"].append(_class_of(row, labels))
    return found


def parse(columns: Sequence[str], pieces: Sequence[bytes]) -> list[dict[str, str]]:
    """Return the rows of an image, each as a dict from column name to text.

    Args:
        columns: Names of the table's columns.
        pieces: Lines of the table.

    Raises:
        ValueError: A row has fewer columns than the header.
    """
    text = str(b"\n".join(pieces), "utf-8", "replace")
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:
        raise ValueError(f"its rows cannot be read: {error}") from None
    if any(len(row) < len(columns) for row in rows):
        raise ValueError(f"a row has {min(map(len, rows))} columns, the header {len(columns)}")
    return [dict(zip(columns, row, strict=False)) for row in rows]


def _is_group(row: Mapping[str, str]) -> int:
    return max(_flag("IsGroupOf", row), 0)


def _flag(column: str, row: Mapping[str, str]) -> int:
    return read_flag(row.get(column), column, (-1, 0, 1))


def _box(row: Mapping[str, str], size: tuple[int, int]) -> list[float]:
    """Return the box of a row as left, top, right, bottom in pixels; `size` is (height, width) of the image."""
    x1, y1, x2, y2 = (finite_number(row.get(column), column) for column in SIDES)
    for low, high, one, other in ((x1, x2, "XMin", "XMax"), (y1, y2, "YMin", "YMax")):
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"{one} is {low} and {other} {high}, where 0 <= {one} < {other} <= 1 must be (columns X X Y Y?)"
            )
    return [x1 * size[1], y1 * size[0], x2 * size[1], y2 * size[0]]


def _class_of(row: Mapping[str, str], labels: Mapping[str, int]) -> int:
    if row[LABEL] not in labels:
        raise ValueError(f"the label {json.dumps(row[LABEL])} is not among the descriptions")
    return labels[row[LABEL]]


class OpenImagesDataset(DescribedFiles):
    """The images that a table of OpenImages names, in the order of first appearance.

    A sample has the image in the field ``jpg``; its label is -1. With a table of boxes (``XMin`` and so on) the field
    ``json``, from which the loader reads targets, has ``boxes`` in pixels of the upright image, ``labels``, ``iscrowd``
    (``IsGroupOf``), and ``occluded``, ``truncated``, ``group_of``, ``depiction``, ``inside`` as stored: 1, 0, or -1 for unknown.
    With a table of image labels (``Confidence`` without boxes) the field ``image_labels`` is
    ``{"present": [...], "absent": [...]}``, the classes that people verified; a class in neither list is unknown.

    Classes count from 0 in the order of the table of descriptions. Images without rows in the table are left out; an image
    whose file is missing is a bad sample. Tables of segmentations are not read.

    Args:
        table: Path of the table, such as ``oidv6-train-annotations-bbox.csv`` or
            ``train-annotations-human-imagelabels.csv``.
        images: Path of the folder of images. If None, the first of these folders that holds one of the first images: the
            folder named like the split in the table's name, then ``images``, each next to the table or next to its folder;
            then the table's own folder.
        descriptions: Path of the table of labels and their names. If None, ``*class-descriptions*.csv`` next to the table;
            if there are several, the one with ``boxable`` in its name for boxes, and without it for image labels.
        crowd: Whether boxes around groups of objects (``IsGroupOf``) are included.

    Raises:
        SourceError: The table, the descriptions or the images are missing, or the table lacks a required column.
    """

    def __init__(
        self,
        table: PathLike,
        *,
        images: PathLike | None = None,
        descriptions: PathLike | None = None,
        crowd: bool = False,
    ) -> None:
        images = None if images is None else Path(images).absolute()
        descriptions = None if descriptions is None else Path(descriptions).absolute()
        options = {"images": images, "descriptions": descriptions, "crowd": crowd}
        super().__init__(table, Scan("openimages", 1, find_images), options)
        path = self._source
        self._columns = read_header_row(read_head(path, _HEAD_BYTES))
        self._has_boxes = SIDES[0] in self._columns
        self._names = read_descriptions(descriptions or _find_descriptions(path, self._has_boxes))
        self._class_names = tuple(self._names.values())
        self._labels = {label: number for number, label in enumerate(self._names)}
        first = [*map(_file_of, self._stored.fetch(range(min(len(self), _MOST_TRIED))))]
        around = (path.parent, path.parent.parent)
        root = images or folder_with(path, around, _usual_folders(path), first)
        self._files = FilesBelow(root, "the folder of the images")

    def _identity(self) -> bytes:
        return repr((list(self._names.items()), self._options["crowd"])).encode()

    def _name_of(self, entry: Sample | BadSample) -> str:
        return _file_of(entry)

    def _read(self, entry: Sample) -> Sample:
        fields: dict[str, Payload] = {"jpg": self._files.read(_file_of(entry))}
        rows = parse(self._columns, [bytes(piece) for piece in entry.fields.values()])
        if self._has_boxes:
            header = read_header(fields["jpg"])  # boxes are stored as fractions of its size
            size = header.height, header.width
            targets = to_boxes(rows, self._labels, size, crowd=self._options["crowd"])
            fields["json"] = to_payload(targets | CORNERS)
        else:
            fields["image_labels"] = to_payload(to_image_labels(rows, self._labels))
        return Sample(entry.index, entry.key, fields, image_field="jpg")


def _file_of(entry: Sample | BadSample) -> str:
    """Return the file name of an entry's image, made of the image id in the entry's key (TABLE/ID)."""
    return f"{entry.key.partition('/')[2]}.jpg"


def _find_descriptions(path: Path, has_boxes: bool) -> Path:
    paths: list[Path] = sorted(path.parent.glob("*class-descriptions*.csv"))
    fitting: list[Path] = [one for one in paths if ("boxable" in one.name) == has_boxes] or paths
    if len(fitting) == 1:
        return fitting[0]
    raise SourceError(
        f"{path} has {len(paths) or 'no'} files class-descriptions*.csv beside it, and its labels need one: say descriptions="
    )


def _usual_folders(path: Path) -> list[str]:
    """Return usual names of the image folder of a table: the split in the table's name, then ``images``."""
    split = split_of(path.stem.replace("-", " "))
    return [*{None: (), "validation": ("validation", "val")}.get(split, (split,)), "images"]
