"""One XML file of Pascal VOC: the size of its picture, and its objects."""

import math
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, fromstring

from readers.formats.columns import shorten

_SIDES = ("xmin", "ymin", "xmax", "ymax")


class VocObject(NamedTuple):
    """An object as it is written.

    Attributes:
        name: Name of its class.
        box: xmin, ymin, xmax, ymax.
        difficult: 1 where it is hard to recognise, else 0.
        truncated: 1 where it goes on behind the edge of the picture, or behind something else, else 0.
        pose: Such as "Left"; "Unspecified" where nothing says it.
    """

    name: str
    box: tuple[float, float, float, float]
    difficult: int
    truncated: int
    pose: str


class VocAnnotation(NamedTuple):
    """The content of a file.

    Attributes:
        size: Height and width of the picture, None where it is not stated or 0.
        objects: In the order of the file. Their parts (heads, hands) are not among them.
    """

    size: tuple[int, int] | None
    objects: list[VocObject]


def parse_annotation(data: bytes, name: str) -> VocAnnotation:
    """Read an annotation.

    Args:
        data: The file's content.
        name: Its name, for errors.

    Raises:
        ValueError: It is no such XML; the text names the object, from 1, and what is wrong with it.
    """
    root = _parse(data, name)
    found = root.find("size")
    size = (0, 0)
    if found is not None:
        size = _length(found, "height", name), _length(found, "width", name)
    objects = [
        _object(one, f"{name} object {number}")
        for number, one in enumerate(root.findall("object"), start=1)
    ]
    return VocAnnotation(size if min(size) > 0 else None, objects)


def looks_like_annotation(head: bytes) -> bool:
    """Whether the first bytes of a file are those of such XML."""
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return text.startswith(b"<annotation") or (text.startswith(b"<?xml") and b"<annotation" in text)


def _parse(data: bytes, name: str) -> Element:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"\0" in data:
        raise ValueError(f"{name} has entities or zeros, which an annotation has not")
    try:
        root = fromstring(data)
    except (ParseError, ValueError, LookupError) as error:
        raise ValueError(f"{name} is no XML that can be read: {error}") from None
    if root.tag != "annotation":
        raise ValueError(f"{name} holds <{shorten(root.tag)}>, not <annotation>")
    return root


def _object(one: Element, where: str) -> VocObject:
    name = (one.findtext("name") or "").strip()
    if not name:
        raise ValueError(f"{where} has no name")
    box = one.find("bndbox")
    if box is None:
        raise ValueError(f"{where} ({shorten(name)}) has no bndbox")
    left, top, right, bottom = (_number(box, side, where) for side in _SIDES)
    pose = (one.findtext("pose") or "").strip() or "Unspecified"
    difficult, truncated = (_flag(one, field, where) for field in ("difficult", "truncated"))
    return VocObject(name, (left, top, right, bottom), difficult, truncated, pose)


def _number(box: Element, field: str, where: str) -> float:
    text = (box.findtext(field) or "").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {field} must be a number, got {shorten(text)}")
    return value


def _flag(one: Element, field: str, where: str) -> int:
    text = (one.findtext(field) or "").strip() or "0"
    if text not in ("0", "1"):
        raise ValueError(f"{where}: {field} must be 0 or 1, got {shorten(text)}")
    return int(text)


def _length(size: Element, field: str, name: str) -> int:
    text = (size.findtext(field) or "").strip() or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name}: {field} must be a number of pixels, got {shorten(text)}")
    return int(text)
