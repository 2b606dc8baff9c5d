"""One JSON file of LabelMe: its picture, its shapes, and the objects that consist of them."""

import base64
import binascii
import posixpath
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.boxes.checks import stated_length
from readers.formats.coco.masks import rasterise, read_png
from readers.formats.columns import shorten
from readers.formats.text import parse_object
from readers.storage.limits import check_bytes

# For each shape_type the least and the most points.
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
WITH_AREA = ("polygon", "rectangle", "oriented_rectangle", "circle", "mask")
LINES = ("line", "linestrip")
_DECODED_BYTES = 4  # of a pixel of a mask, at most: numbers of 32 bits


class Shape(NamedTuple):
    """One shape.

    Attributes:
        label: Name of its class.
        kind: Its shape_type.
        points: x and y of each point, in pixels of the upright picture.
        group: Shapes of one label and one group are one object; None for an object of its own.
        mask: The PNG file of the crop of a mask, in base64; "" for other shapes.
        raw: The shape as written, without the mask.
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
        data: The picture in base64 if the file holds it, else "".
        size: Height and width as stated, 0 for one that is not.
        shapes: The shapes in their order.
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
        name: Its name below the dataset's folder, for errors and for the picture's path.

    Raises:
        ValueError: The file is malformed; the text names the file, the shape (from 1) and the fault.
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
    """Return label and shape_type of each shape, even if other parts of it are malformed; see `parse_document`."""
    shapes = enumerate(_stored(content, name)["shapes"], start=1)
    return [_label_and_kind(one, f"{name} shape {number}") for number, one in shapes]


def decode_base64(text: str, what: str) -> bytes:
    """Return the bytes of a text.

    Raises:
        ValueError: The text is no base64, or takes too much memory.
    """
    check_bytes(len(text), what)
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{what} is no base64: {error}") from None


def _stored(content: bytes, name: str) -> dict[str, Any]:
    stored = parse_object(content, name)
    if not isinstance(stored.get("shapes"), list):
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


class Instance(NamedTuple):
    """The shapes of one object.

    Attributes:
        label: Name of its class.
        shapes: Shapes with an area: those of one group, or a single one.
        number: Number of the first shape, from 1.
    """

    label: str
    shapes: list[Shape]
    number: int

    @property
    def box(self) -> list[float]:
        """The extent of all its shapes: left, top, right, bottom."""
        boxes = np.array([_box_of(one) for one in self.shapes])
        return [*boxes[:, :2].min(0).tolist(), *boxes[:, 2:].max(0).tolist()]


def instances_of(shapes: Sequence[Shape]) -> list[Instance]:
    """Return the objects that shapes with an area make, in the order of their first shapes."""
    by_group: dict[object, Instance] = {}
    for number, one in enumerate(shapes, start=1):
        if one.kind in WITH_AREA:
            key = ("one", number) if one.group is None else ("group", one.label, repr(one.group))
            by_group.setdefault(key, Instance(one.label, [], number)).shapes.append(one)
    return list(by_group.values())


def mask_of(instance: Instance, size: tuple[int, int], where: str) -> NDArray[np.bool_]:
    """Return the pixels of an object, bool [height, width].

    Outlines are rasterised like those of COCO (see `rasterise`); a circle holds the pixels whose centres lie in it.

    Raises:
        ValueError: A stored mask cannot be read or does not fit.
    """
    found = np.zeros(size, bool)
    for one in instance.shapes:
        if one.kind == "mask":
            _paste(found, one, where)
        elif one.kind == "circle":
            (x, y), radius = one.points[0], _radius(one)
            rows, columns = np.ogrid[: size[0], : size[1]]
            found |= (columns + 0.5 - x) ** 2 + (rows + 0.5 - y) ** 2 <= radius**2
        else:
            corners = one.points
            if one.kind == "rectangle":
                left, top, right, bottom = _box_of(one)
                corners = ((left, top), (right, top), (right, bottom), (left, bottom))
            found |= rasterise([[value for point in corners for value in point]], *size)
    return found


def _box_of(one: Shape) -> tuple[float, float, float, float]:
    xs, ys = zip(*one.points, strict=True)
    if one.kind == "circle":
        (x, y), radius = one.points[0], _radius(one)
        return x - radius, y - radius, x + radius, y + radius
    further = 1 if one.kind == "mask" else 0  # its second point names the last pixel inside
    return min(xs), min(ys), max(xs) + further, max(ys) + further


def _radius(one: Shape) -> float:
    (x, y), (rim_x, rim_y) = one.points
    return float(np.hypot(rim_x - x, rim_y - y))


def _paste(mask: NDArray[np.bool_], one: Shape, where: str) -> None:
    """Put a stored mask into the whole picture's."""
    left, top, right, bottom = (int(value) for value in _box_of(one))
    data = decode_base64(one.mask, f"{where}: mask")
    crop = read_png(data, f"{where}: mask", _DECODED_BYTES)
    if crop.ndim != 2:
        raise ValueError(f"{where}: mask must have one channel, got {crop.shape[2]}")
    if crop.shape != (bottom - top, right - left):
        raise ValueError(
            f"{where}: mask is {crop.shape[1]} x {crop.shape[0]} (width x height), and its points span "
            f"{right - left} x {bottom - top}"
        )
    if left < 0 or top < 0 or bottom > mask.shape[0] or right > mask.shape[1]:
        raise ValueError(f"{where}: mask leaves the picture")
    mask[top:bottom, left:right] |= crop > 0
