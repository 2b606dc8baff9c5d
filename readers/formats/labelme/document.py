"""One JSON file of LabelMe: its picture and its shapes, as they are written."""

import base64
import binascii
import json
import posixpath
from typing import Any, NamedTuple

from readers.formats.boxes.checks import stated_length
from readers.formats.columns import shorten
from readers.storage.limits import check_bytes

_NUM_POINTS = {
    "polygon": (3, None),
    "rectangle": (2, 2),
    "oriented_rectangle": (4, 4),
    "circle": (2, 2),
    "mask": (2, 2),
    "point": (1, 1),
    "line": (2, 2),
    "linestrip": (2, None),
}


class Shape(NamedTuple):
    """One shape.

    Attributes:
        label: Name of its class.
        kind: Its shape_type.
        points: x and y of each, in pixels of the upright picture; see `readers.formats.labelme.objects`.
        group: Shapes of one label and one group are one object; None for an object of its own.
        mask: Of a mask, the PNG file of its crop in base64, else "".
        raw: All that is written of it, without the mask.
    """

    label: str
    kind: str
    points: tuple[tuple[float, float], ...]
    group: Any
    mask: str
    raw: dict[str, Any]


class Document(NamedTuple):
    """The content of a file.

    Attributes:
        image: Name of the picture below the dataset's folder.
        data: The picture itself where the file holds it, in base64, else "".
        size: Height and width as stated, 0 where they are not.
        shapes: In their order.
        flags: Flags of the picture.
    """

    image: str
    data: str
    size: tuple[int, int]
    shapes: list[Shape]
    flags: dict[str, Any]


def parse_document(content: bytes, name: str) -> Document:
    """Read a file.

    Args:
        content: Its bytes.
        name: Its name below the dataset's folder, for errors and for where the picture lies.

    Raises:
        ValueError: It is no such file; the text names it, the shape (from 1) and what is wrong.
    """
    stored = _stored(content, name)
    path, data = stored.get("imagePath"), stored.get("imageData") or ""
    if not isinstance(data, str) or not isinstance(path, str) or not path:
        raise ValueError(f"{name}: imagePath must be a name and imageData text or null")
    shapes = [
        _shape(one, f"{name} shape {number}")
        for number, one in enumerate(stored["shapes"], start=1)
    ]
    height, width = (
        stated_length(stored.get(side), f"{name}: {side}") for side in ("imageHeight", "imageWidth")
    )
    flags = stored.get("flags")
    image = posixpath.join(posixpath.dirname(name), path.replace("\\", "/"))
    return Document(image, data, (height, width), shapes, flags if isinstance(flags, dict) else {})


def parse_labels(content: bytes, name: str) -> list[tuple[str, str]]:
    """Return label and shape_type of each shape, whatever else is wrong with it; see `parse_document`."""
    shapes = enumerate(_stored(content, name)["shapes"], start=1)
    return [_label_and_kind(one, f"{name} shape {number}") for number, one in shapes]


def decode_base64(text: str, what: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: It is none, or takes too much memory.
    """
    check_bytes(len(text), what)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{what} is no base64: {error}") from None


def _stored(content: bytes, name: str) -> dict[str, Any]:
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is no JSON: {error}") from None
    if not isinstance(stored, dict) or not isinstance(stored.get("shapes"), list):
        raise ValueError(f"{name} has no list shapes: it is no file of LabelMe")
    return stored


def _label_and_kind(one: Any, where: str) -> tuple[str, str]:
    if not isinstance(one, dict):
        raise ValueError(f"{where} is no JSON object but {shorten(one)}")
    label, kind = one.get("label"), one.get("shape_type") or "polygon"
    if not isinstance(label, str) or not label:
        raise ValueError(f"{where}: label must be text, got {shorten(label)}")
    return label, str(kind)


def _shape(one: Any, where: str) -> Shape:
    label, kind = _label_and_kind(one, where)
    if kind not in _NUM_POINTS:
        raise ValueError(
            f"{where}: shape_type must be one of {', '.join(_NUM_POINTS)}, got {shorten(kind)}"
        )
    points = one.get("points")
    if not isinstance(points, list) or not all(map(_is_point, points)):
        raise ValueError(f"{where}: points must be a list of x and y, got {shorten(points)}")
    least, most = _NUM_POINTS[kind]
    if len(points) < least or (most is not None and len(points) > most):
        raise ValueError(
            f"{where}: {kind} has {len(points)} points, needs {least}{'' if most else ' or more'}"
        )
    mask = one.get("mask") or ""
    if not isinstance(mask, str) or (kind == "mask" and not mask):
        raise ValueError(f"{where}: mask must be a PNG in base64, got {shorten(mask)}")
    raw = {key: value for key, value in one.items() if key != "mask"}
    corners = tuple((float(x), float(y)) for x, y in points)
    return Shape(label, kind, corners, one.get("group_id"), mask, raw)


def _is_point(point: Any) -> bool:
    return (
        isinstance(point, list)
        and len(point) == 2
        and all(
            isinstance(x, int | float) and not isinstance(x, bool) and -1e9 < x < 1e9 for x in point
        )
    )
