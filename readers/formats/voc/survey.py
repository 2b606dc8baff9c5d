"""What all annotations of a dataset tell together: its classes, and from where its coordinates count."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal, NamedTuple

from readers.formats.voc.annotation import parse_annotation
from readers.sample import SourceError

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


def read_labelmap(text: str, name: str) -> tuple[str, ...]:
    """Return the classes that a ``labelmap.txt`` of CVAT lists, without the background.

    Args:
        text: Its content: lines ``name:red,green,blue:parts:actions``, and comments behind ``#``.
        name: Its name, for errors.

    Raises:
        SourceError: It lists none, or one twice.
    """
    lines = (line.strip() for line in text.splitlines())
    names = [line.split(":")[0].strip() for line in lines if line and not line.startswith("#")]
    names = [one for one in names if one and one != "background"]
    if not names or len({*names}) < len(names):
        raise SourceError(
            f"{name} lists no classes or one twice: write lines such as cat:128,0,0::, or give classes="
        )
    return tuple(names)
