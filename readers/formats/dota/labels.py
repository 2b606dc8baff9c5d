"""Parser of DOTA's label files, and the classes of DOTA."""

import re
from collections.abc import Collection
from typing import NamedTuple

from readers.formats.boxes.checks import read_flag
from readers.formats.text import filled_rows, finite_number
from readers.sample import SourceError

CLASSES = (
    *("plane", "ship", "storage-tank", "baseball-diamond", "tennis-court", "basketball-court"),
    *("ground-track-field", "harbor", "bridge", "large-vehicle", "small-vehicle", "helicopter"),
    *("roundabout", "soccer-ball-field", "swimming-pool", "container-crane", "airport", "helipad"),
)
"""Classes of DOTA v2.0 in the order of https://captain-whu.github.io/DOTA/dataset.html and of Ultralytics' DOTAv1.yaml."""
# Numbers of classes in v1.0, v1.5 and v2.0, of which each appends to the one before.
_VERSIONS = (15, 16, 18)
_CORNERS = 8  # count of numbers before the class
_NUMBER = re.compile(r"[-+]?[0-9.]+")
_BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:(?:imagesource|gsd)[ \t]*:|(?:-?[0-9]+(?:\.[0-9]*)?[ \t]+){8}\S)"
)


class Row(NamedTuple):
    """One object of a label file.

    Attributes:
        line: Line number, from 1.
        corners: x, y of four corners in pixels, in the order of the file.
        name: Class name.
        difficult: 0, 1 for an object that is hard to recognise, or 2 for a small rest of an object that the edge of a tile cuts,
            as the development kit of DOTA writes it.
    """

    line: int
    corners: tuple[float, ...]
    name: str
    difficult: int


def parse_labels(data: bytes, name: str) -> tuple[dict[str, str], list[Row]]:
    """Parse a label file.

    Args:
        data: Content of the file.
        name: Name of the file, for errors.

    Returns:
        The lines before the objects, such as ``gsd:0.146``, as a dict of text, and the objects.

    Raises:
        ValueError: A line is malformed; the text names file and line.
    """
    header: dict[str, str] = {}
    rows: list[Row] = []
    for line, words in filled_rows(data, name):
        key, colon, value = " ".join(words).partition(":")
        if colon and not rows and not _NUMBER.fullmatch(words[0]):
            header[key.strip()] = value.strip()
        else:
            rows.append(_row(words, line, f"{name}:{line}"))
    return header, rows


def _row(words: list[str], line: int, where: str) -> Row:
    if len(words) <= _CORNERS:
        raise ValueError(
            f"{where}: {len(words)} words, and a row has x, y of four corners, a class, and 0, 1 or 2 for difficult"
        )
    corners = tuple(finite_number(word, where) for word in words[:_CORNERS])
    # A class may have blanks, and some converters omit the flag behind it.
    has_flag = len(words) > _CORNERS + 1 and _NUMBER.fullmatch(words[-1])
    flag = words.pop() if has_flag else None
    name = " ".join(words[_CORNERS:])
    return Row(line, corners, name, read_flag(flag, f"{where}: difficult", (0, 1, 2)))


def looks_like_labels(head: bytes) -> bool:
    """Return whether a file is a label file of DOTA, by its first bytes: a header, or eight numbers and a class."""
    return _BEGINNING.match(head) is not None


def choose_classes(names: Collection[str], root: object) -> tuple[str, ...]:
    """Return the classes of the first version of DOTA that has all of the given names; the sorted names if no version has.

    Raises:
        SourceError: There are no names.
    """
    if not names:
        raise SourceError(
            f"the label files of {root} name no objects: give the names of the classes, open_dataset(..., "
            "classes=['plane', 'ship'])"
        )
    versions = (CLASSES[:number] for number in _VERSIONS)
    return next((some for some in versions if {*names} <= {*some}), tuple(sorted(names)))
