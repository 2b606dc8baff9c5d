"""What all annotations of a dataset tell together: its classes, and from where its coordinates count."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, NamedTuple

from readers.formats.voc.annotation import parse_annotation
from readers.sample import SourceError

Color = tuple[int, int, int]
BACKGROUND = "background"
Coords = Literal["one-based", "zero-based"]

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
"""Those of Pascal VOC, in the order of its masks, in which they have the numbers from 1 on."""


class Survey(NamedTuple):
    """What was found in annotations.

    Attributes:
        names: Names of classes.
        zero: The first object that begins at 0, which is no place where counting begins at 1; "" for none.
        edge: The first object that ends at the last row or column where they are counted from 1; "" for none.
    """

    names: frozenset[str]
    zero: str
    edge: str


def survey(read: Callable[[str], bytes], files: Iterable[str]) -> Survey:
    """Look at the objects of all annotations; those that cannot be read are passed over.

    Args:
        read: Reads a file by its name, or raises ValueError.
        files: Their names.
    """
    names: set[str] = set()
    zero = edge = ""
    for file in files:
        with suppress(ValueError):
            found = parse_annotation(read(file), file)
            for number, one in enumerate(found.objects, start=1):
                names.add(one.name)
                left, top, right, bottom = one.box
                if not zero and 0 <= min(left, top) < 1:
                    zero = f"object {number} of {file} begins at {min(left, top):g}"
                if not edge and found.size and (right == found.size[1] or bottom == found.size[0]):
                    edge = f"object {number} of {file}"
    return Survey(frozenset(names), zero, edge)


def choose_coords(found: Survey, root: object) -> tuple[Coords, str]:
    """Tell from where coordinates count, and what is to be said of it.

    A box that begins at 0 shows that they count from 0. Where none does, one that ends at the width or height of
    its picture shows that they count from 1, both ends included. Otherwise they are taken as Pascal VOC defines
    them, from 1, and a remark says so.

    Returns:
        The convention, and a sentence or "".
    """
    if found.zero:
        return "zero-based", (
            f"{root} is read with coordinates that count from 0, as {found.zero}, while those of Pascal VOC count from "
            "1: say coords='zero-based' if that is right, or 'one-based'"
        )
    if found.edge or not found.names:
        return "one-based", ""
    return "one-based", (
        f"{root} is read with coordinates that count from 1, as Pascal VOC defines them, since no box shows it: say "
        "coords='one-based' if that is right, or 'zero-based' for a tool that counts from 0"
    )


def choose_classes(found: Survey, root: object) -> tuple[str, ...]:
    """Return the classes of Pascal VOC where all names are among them, else the names in sorted order.

    Raises:
        SourceError: No object has a name.
    """
    if not found.names:
        raise SourceError(
            f"the annotations of {root} name no objects: give the names of the classes, "
            "open_dataset(..., classes=['cat', 'dog'])"
        )
    return CLASSES if found.names <= {*CLASSES} else tuple(sorted(found.names))


def read_labelmap(text: str, name: str) -> dict[str, Color | None]:
    """Return what a ``labelmap.txt`` of CVAT lists: names, the background among them, and the colours of masks.

    Args:
        text: Its content: lines ``name:red,green,blue:parts:actions``, and comments behind ``#``.
        name: Its name, for errors.

    Raises:
        SourceError: It lists no classes, one twice, or something that is no colour.
    """
    found: dict[str, Color | None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.strip().split(":")
        if not parts[0] or parts[0].startswith("#"):
            continue
        if parts[0] in found:
            raise SourceError(f"{name}:{number} names {parts[0]} a second time: keep one of them")
        found[parts[0]] = _color(parts[1], f"{name}:{number}") if parts[1:] and parts[1] else None
    if not found.keys() - {BACKGROUND}:
        raise SourceError(
            f"{name} lists no classes: write lines such as cat:128,0,0::, or give classes="
        )
    return found


def _color(text: str, where: str) -> Color:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(
        part.isascii() and part.isdigit() and int(part) < 256 for part in parts
    ):
        raise SourceError(
            f"{where}: a colour must be three numbers to 255, such as 128,0,0, got {text!r}"
        )
    red, green, blue = map(int, parts)
    return red, green, blue
