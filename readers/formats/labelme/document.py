"""One JSON file of LabelMe: its picture, its shapes, and the objects that consist of them."""

import base64
import binascii
import posixpath
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from readers.formats.boxes.checks import stated_length
from readers.formats.boxes.oriented import corners_around, has_area, is_rectangle, is_upright
from readers.formats.coco.masks import rasterise, read_png
from readers.formats.coco.targets import quadrangle_of
from readers.formats.columns import shorten
from readers.formats.text import parse_object, to_struct
from readers.storage.limits import check_bytes

# For each shape_type, the smallest and the largest number of points; None is no limit.
_NUM_POINTS = {
    "polygon": (3, None),
    "rectangle": (2, 4),
    "oriented_rectangle": (4, 4),
    "circle": (2, 2),
    "mask": (2, 2),
    "point": (1, 1),
    "line": (2, 2),
    "linestrip": (2, None),
}
ROTATED = "oriented_rectangle"
# The type has this name in X-AnyLabeling's files, which are LabelMe's otherwise, and that one in files of converters.
_SYNONYMS = {"rotation": ROTATED, "rotated_rectangle": ROTATED}
WITH_AREA = ("polygon", "rectangle", "oriented_rectangle", "circle", "mask")
LINES = ("line", "linestrip")
_DECODED_BYTES = 4  # per pixel of a mask, at most: masks have up to 32 bits
# Pixels: larger numbers are no coordinates, and NaN lies in no range.
_Coordinate = Annotated[float, msgspec.Meta(gt=-1e9, lt=1e9)]


class Labelled(msgspec.Struct):
    """Label and type of a shape.

    Attributes:
        label: Name of the shape's class.
        shape_type: Type of the shape as written in the file, usually text or None; see `kind`.
    """

    label: Annotated[str, msgspec.Meta(min_length=1)]
    shape_type: Any = None

    @property
    def kind(self) -> str:
        """Type of the shape, a key of `_NUM_POINTS` if it is known; a shape without a type is a polygon."""
        kind = str(self.shape_type or "polygon")
        return _SYNONYMS.get(kind, kind)


class Shape(Labelled, kw_only=True):
    """One shape.

    Attributes:
        points: x and y of each point, in pixels of the upright picture.
        group_id: Shapes of one label and one group are one object; None for an object of its own.
        mask: The PNG file of the crop of a mask, in base64; None or "" for other shapes.
    """

    points: tuple[tuple[_Coordinate, _Coordinate], ...]
    group_id: Any = None
    mask: str | None = None

    @property
    def corners(self) -> list[float] | None:
        """x, y of each corner of a shape with four corners, in the order of the file; None for others, such as two of a rectangle."""
        is_outline = self.kind in ("polygon", "rectangle", ROTATED)
        return quadrangle_of([[*chain(*self.points)]]) if is_outline else None

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown type, a wrong number of points, or a mask without pixels."""
        if self.kind not in _NUM_POINTS:
            raise ValueError(
                f"shape_type must be one of {', '.join(_NUM_POINTS)}, got {shorten(self.kind)}"
            )
        least, most = _NUM_POINTS[self.kind]
        count = len(self.points)
        if count < least or (most is not None and count > most):
            raise ValueError(
                f"{self.kind} has {count} points, needs {least}{'' if most else ' or more'}"
            )
        if self.kind == "rectangle" and count > 2:  # X-AnyLabeling writes all four corners
            corners = self.corners
            if not corners or not all(f(corners) for f in (has_area, is_rectangle, is_upright)):
                raise ValueError(
                    f"rectangle has {count} points, which are not the corners of an upright one: write two opposite corners, or the type "
                    "oriented_rectangle or rotation where it is turned"
                )
        if self.kind == "mask" and not self.mask:
            raise ValueError("mask must be a PNG in base64")


class _Labels(msgspec.Struct):
    """The content of a file, as far as it names classes."""

    shapes: list[Labelled]


class _Content(msgspec.Struct, rename="camel"):
    """The content of a file."""

    image_path: Annotated[str, msgspec.Meta(min_length=1)]
    shapes: list[Shape]
    image_data: str | None = None
    image_height: Any = None
    image_width: Any = None
    flags: Any = None


class Document(NamedTuple):
    """The content of a file.

    Attributes:
        image: Name of the picture below the dataset's folder.
        data: The picture in base64 if the file holds it, else "".
        size: Height and width as stated, 0 for one that is not.
        shapes: The shapes in their order.
        raw_shapes: The shapes as written, without their masks.
        flags: Flags of the picture.
    """

    image: str
    data: str
    size: tuple[int, int]
    shapes: list[Shape]
    raw_shapes: list[dict[str, Any]]
    flags: dict[str, Any]


def parse_document(content: bytes, name: str) -> Document:
    """Read a file.

    Args:
        content: The bytes of the file.
        name: Name of the file below the dataset's folder, for errors and for the picture's path.

    Raises:
        ValueError: The file is malformed; the text names the file, the value's path and the fault.
    """
    stored = parse_object(content, name)
    found = to_struct(stored, _Content, name)
    return Document(
        posixpath.join(posixpath.dirname(name), found.image_path.replace("\\", "/")),
        found.image_data or "",
        (
            stated_length(found.image_height, f"{name}: imageHeight"),
            stated_length(found.image_width, f"{name}: imageWidth"),
        ),
        found.shapes,
        [{key: value for key, value in one.items() if key != "mask"} for one in stored["shapes"]],
        found.flags if isinstance(found.flags, dict) else {},
    )


def parse_labels(content: bytes, name: str) -> list[tuple[str, str]]:
    """Return label and shape_type of each shape, even if other parts of it are malformed; see `parse_document`."""
    shapes = to_struct(parse_object(content, name), _Labels, name).shapes
    return [(one.label, one.kind) for one in shapes]


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

    def corners(self, where: str) -> list[float]:
        """Return x, y of four corners: as in the file if it has four, those of `box` for other rectangles and circles.

        Args:
            where: Name of file and object, for errors.

        Raises:
            ValueError: The object is a mask, an outline of other than four corners, or several shapes, whose direction is unknown.
        """
        first = self.shapes[0]
        if len(self.shapes) == 1 and (first.corners or first.kind in ("rectangle", "circle")):
            return first.corners or corners_around(self.box)
        raise ValueError(
            f"{where} is no shape of four corners, which oriented boxes need: draw a polygon of four points or an oriented_rectangle, "
            "or say oriented=False to have the box around it"
        )


def instances_of(shapes: Sequence[Shape]) -> list[Instance]:
    """Return the objects that shapes with an area make, in the order of their first shapes."""
    by_group: dict[object, Instance] = {}
    for number, one in enumerate(shapes, start=1):
        if one.kind in WITH_AREA:
            key = (
                ("one", number)
                if one.group_id is None
                else ("group", one.label, repr(one.group_id))
            )
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
    data = decode_base64(one.mask or "", f"{where}: mask")
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
