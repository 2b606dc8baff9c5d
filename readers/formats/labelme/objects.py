"""LabelMe's shapes as objects: which belong together, their boxes, and their masks."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.coco.masks import rasterise
from readers.formats.labelme.document import Shape, decode_base64
from readers.image.header import read_header
from readers.sample import HeaderError

WITH_AREA = ("polygon", "rectangle", "oriented_rectangle", "circle", "mask")
LINES = ("line", "linestrip")


class Instance(NamedTuple):
    """The shapes of one object.

    Attributes:
        label: Name of its class.
        shapes: Those with an area, of one group, or one alone.
        number: Number of the first of them, from 1.
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
    found: dict[object, Instance] = {}
    for number, one in enumerate(shapes, start=1):
        if one.kind in WITH_AREA:
            key = ("one", number) if one.group is None else ("group", one.label, repr(one.group))
            found.setdefault(key, Instance(one.label, [], number)).shapes.append(one)
    return list(found.values())


def mask_of(instance: Instance, size: tuple[int, int], where: str) -> NDArray[np.bool_]:
    """Return the pixels of an object, bool [height, width].

    Outlines are drawn as those of COCO (see `rasterise`); a circle holds the pixels whose centres lie in it.

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
    from PIL import Image

    left, top, right, bottom = (int(value) for value in _box_of(one))
    data = decode_base64(one.mask, f"{where}: mask")
    try:
        header = read_header(data)
        if header.format != "png" or (header.height, header.width) != (bottom - top, right - left):
            raise ValueError(
                f"{where}: mask is a {header.format} of {header.width} x {header.height} (width x height), and its points "
                f"span {right - left} x {bottom - top}"
            )
        if left < 0 or top < 0 or bottom > mask.shape[0] or right > mask.shape[1]:
            raise ValueError(f"{where}: mask leaves the picture")
        with Image.open(io.BytesIO(data), formats=("PNG",)) as opened:
            crop = np.asarray(opened)
    except HeaderError as error:
        raise ValueError(f"{where}: mask is no PNG: {error}") from None
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{where}: mask cannot be decoded: {error}") from None
    if crop.ndim != 2:
        raise ValueError(f"{where}: mask must have one channel, got {crop.shape[2]}")
    mask[top:bottom, left:right] |= crop > 0
