"""What all annotations of a dataset tell together: its classes, from where its coordinates count, and what the colours of masks stand for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from readers.formats.boxes.checks import Corners, read_if_sound
from readers.formats.coco.masks import read_png, write_png
from readers.formats.voc.annotation import parse_annotation, parse_names
from readers.sample import Payload, SourceError

Color = tuple[int, int, int]
BACKGROUND = "background"

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa"),
    *("train", "tvmonitor"),
)
"""Those of Pascal VOC, in the order of its masks, in which they have the numbers from 1 on."""
VOID = 255
_IN_COLORS = (b"\2", b"\6")  # RGB, RGBA
_COLOR_TYPE = 25  # its place in a PNG
_UNKNOWN = -1
_DECODED_BYTES = 32  # a pixel in colours, as three numbers of 64 bits and one that packs them


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


def in_colors(mask: Payload) -> bool:
    """Whether a PNG has colours of its own instead of a palette or greys."""
    return bytes(mask[_COLOR_TYPE : _COLOR_TYPE + 1]) in _IN_COLORS


@cache
def palette() -> dict[Color, int]:
    """The colour of each number, as Pascal VOC's tools make them: bits of the number, spread over the channels."""
    found = {}
    for number in range(256):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        found[color[0], color[1], color[2]] = number
    return found


def numbers_of_colors(
    listed: Mapping[str, Color | None], classes: Sequence[str]
) -> dict[Color, int]:
    """Return what the colours of masks of classes stand for.

    Args:
        listed: Colours by name, the background among them; see `read_labelmap`.
        classes: Names of the classes, of which the first has the number 1 in masks.

    Returns:
        Colour -> number, also of the background and the void; {} where no class has a colour.
    """
    numbers = {BACKGROUND: 0} | {name: at for at, name in enumerate(classes, start=1)}
    found = {color: numbers[name] for name, color in listed.items() if color and name in numbers}
    void = next(color for color, number in palette().items() if number == VOID)
    return {void: VOID, (0, 0, 0): 0, **found} if found else {}


def numbered(mask: Payload, colors: Mapping[Color, int], name: str) -> bytes:
    """Return a PNG with the number of each pixel's colour.

    Args:
        mask: A PNG in colours.
        colors: Red, green and blue -> number, 0 to 255.
        name: The file's name, for errors.

    Raises:
        ValueError: It cannot be decoded, or has a colour without a number.
    """
    pixels = read_png(mask, name, _DECODED_BYTES, "RGB").astype(np.int64)
    packed = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    known = {red << 16 | green << 8 | blue: number for (red, green, blue), number in colors.items()}
    there, places = np.unique(packed, return_inverse=True)
    numbers = np.array([known.get(color, _UNKNOWN) for color in there.tolist()], np.int64)
    if (numbers == _UNKNOWN).any():
        color = int(there[numbers == _UNKNOWN][0])
        told = f"{color >> 16},{color >> 8 & 255},{color & 255}"
        raise ValueError(f"{name} has the colour {told}, which labelmap.txt gives no class")
    return write_png(numbers[places].reshape(packed.shape).astype(np.uint8))
