"""What all annotations of a dataset tell together: its classes, and from where its coordinates count."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from readers.formats.boxes.checks import Corners, read_if_sound
from readers.formats.voc.annotation import parse_annotation, parse_names
from readers.sample import SourceError

Color = tuple[int, int, int]
BACKGROUND = "background"

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
"""Those of Pascal VOC, in the order of its masks, in which they have the numbers from 1 on."""


class Survey(NamedTuple):
    """What was found in annotations: names of classes, and all boxes."""

    names: frozenset[str]
    boxes: list[Corners]


def survey(read: Callable[[str], bytes], files: Iterable[str], needed_for: str) -> Survey:
    """Look at the objects of all annotations.

    Args:
        read: Reads a file by its name, or raises ValueError.
        files: Their names.
        needed_for: Why none may be passed over whose names cannot be read, "" where damaged ones may; see `read_if_sound`.

    Raises:
        SourceError: One cannot be read.
    """
    names: set[str] = set()
    boxes: list[Corners] = []
    for file in files:
        found = read_if_sound(lambda name: parse_annotation(read(name), name), file)
        if found is None and needed_for:  # an object without a box names its class nevertheless
            names |= {
                *(read_if_sound(lambda name: parse_names(read(name), name), file, needed_for) or ())
            }
        size, objects = found or (None, ())
        names |= {one.name for one in objects}
        boxes += [
            Corners(one.box, size, f"object {number} of {file}")
            for number, one in enumerate(objects, start=1)
        ]
    return Survey(frozenset(names), boxes)


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
