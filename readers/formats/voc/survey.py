"""Facts collected from all annotations of a dataset (classes, boxes), and conversion of coloured masks to classes."""

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
"""Classes of Pascal VOC, in the order of their values in masks, which begin at 1."""
VOID = 255  # value of pixels around objects, which are ignored
_IN_COLORS = (b"\2", b"\6")  # colour types of PNG: RGB, RGBA
_COLOR_TYPE = 25  # offset of the colour type in a PNG
_UNKNOWN = -1  # stands for a colour without a class
_DECODED_BYTES = 32  # memory per pixel while colours are converted: three numbers of 64 bits, and one that packs them


class Survey(NamedTuple):
    """Facts from all annotations.

    Attributes:
        names: Names of all classes.
        boxes: All boxes.
        num_turned: Number of objects whose boxes are turned; see `VocObject`.
    """

    names: frozenset[str]
    boxes: list[Corners]
    num_turned: int


def survey(read: Callable[[str], bytes], files: Iterable[str], needed_for: str) -> Survey:
    """Read all annotations, and return their class names and boxes.

    Args:
        read: Returns the content of a file by its name, or raises ValueError.
        files: Names of the files.
        needed_for: Reason why the class names in each file are needed, "" if damaged files may be skipped; see `read_if_sound`.

    Raises:
        SourceError: A needed file cannot be read.
    """
    names: set[str] = set()
    boxes: list[Corners] = []
    num_turned = 0
    for file in files:
        annotation = read_if_sound(lambda name: parse_annotation(read(name), name), file)
        # An object with a malformed box still names its class.
        if annotation is None and needed_for:
            names |= {
                *(read_if_sound(lambda name: parse_names(read(name), name), file, needed_for) or ())
            }
        size, objects = annotation or (None, ())
        names |= {one.name for one in objects}
        num_turned += sum(one.is_turned for one in objects)
        boxes += [
            Corners(one.box, size, f"object {number} of {file}")
            for number, one in enumerate(objects, start=1)
        ]
    return Survey(frozenset(names), boxes, num_turned)


def choose_classes(surveyed: Survey, root: object) -> tuple[str, ...]:
    """Return the class names: the 20 of Pascal VOC if all names are among them, otherwise the names in sorted order.

    Raises:
        SourceError: No object has a name.
    """
    if not surveyed.names:
        raise SourceError(
            f"the annotations of {root} name no objects: give the names of the classes, "
            "open_dataset(..., classes=['cat', 'dog'])"
        )
    return CLASSES if surveyed.names <= {*CLASSES} else tuple(sorted(surveyed.names))


def read_labelmap(text: str, name: str) -> dict[str, Color | None]:
    """Return the colours of classes in a ``labelmap.txt`` of CVAT.

    Args:
        text: Content of the file: lines ``name:red,green,blue:parts:actions``, and comment lines that begin with ``#``.
        name: Name of the file, for errors.

    Returns:
        Dict from class name to colour, None for a class without a colour; the background is one of the classes.

    Raises:
        SourceError: The file lists no classes, a class twice, or a malformed colour.
    """
    colors: dict[str, Color | None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        parts = line.strip().split(":")
        if not parts[0] or parts[0].startswith("#"):
            continue
        if parts[0] in colors:
            raise SourceError(f"{name}:{number} names {parts[0]} a second time: keep one of them")
        colors[parts[0]] = _color(parts[1], f"{name}:{number}") if parts[1:] and parts[1] else None
    if not colors.keys() - {BACKGROUND}:
        raise SourceError(
            f"{name} lists no classes: write lines such as cat:128,0,0::, or give classes="
        )
    return colors


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


def has_colors(mask: Payload) -> bool:
    """Return whether a PNG stores RGB or RGBA pixels, instead of palette indices or greys."""
    return bytes(mask[_COLOR_TYPE : _COLOR_TYPE + 1]) in _IN_COLORS


@cache
def palette() -> dict[Color, int]:
    """Return Pascal VOC's palette as a dict from colour to value.

    A colour is made of the bits of its value, spread over the channels.
    """
    numbers = {}
    for number in range(256):
        color = [0, 0, 0]
        for bit in range(8):
            color[bit % 3] |= (number >> bit & 1) << (7 - bit // 3)
        numbers[color[0], color[1], color[2]] = number
    return numbers


def numbers_of_colors(
    listed: Mapping[str, Color | None], classes: Sequence[str]
) -> dict[Color, int]:
    """Return a dict from the colours in masks to the values that they stand for.

    Args:
        listed: Colours by class name, including the background; see `read_labelmap`.
        classes: Class names; the first class has the value 1 in masks.

    Returns:
        The values of classes, of the background (0) and of ignored pixels (255); empty if no class has a colour.
    """
    numbers = {BACKGROUND: 0} | {name: at for at, name in enumerate(classes, start=1)}
    number_of = {
        color: numbers[name] for name, color in listed.items() if color and name in numbers
    }
    void = next(color for color, number in palette().items() if number == VOID)
    return {void: VOID, (0, 0, 0): 0, **number_of} if number_of else {}


def number_colors(mask: Payload, colors: Mapping[Color, int], name: str) -> bytes:
    """Convert a PNG in colours to a grey PNG with the value that each pixel's colour stands for.

    Args:
        mask: Content of the PNG in colours.
        colors: Dict from (red, green, blue) to value, 0 to 255.
        name: Name of the file, for errors.

    Raises:
        ValueError: The mask cannot be decoded, or has a colour without a value.
    """
    pixels = read_png(mask, name, _DECODED_BYTES, "RGB").astype(np.int64)
    packed = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    known = {red << 16 | green << 8 | blue: number for (red, green, blue), number in colors.items()}
    different, inverse = np.unique(packed, return_inverse=True)
    numbers = np.array([known.get(color, _UNKNOWN) for color in different.tolist()], np.int64)
    if (numbers == _UNKNOWN).any():
        color = int(different[numbers == _UNKNOWN][0])
        shown = f"{color >> 16},{color >> 8 & 255},{color & 255}"
        raise ValueError(f"{name} has the colour {shown}, which labelmap.txt gives no class")
    return write_png(numbers[inverse].reshape(packed.shape).astype(np.uint8))
