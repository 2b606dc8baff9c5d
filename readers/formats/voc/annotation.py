"""One XML file of Pascal VOC: the size of its picture, and its objects."""

import json
import re
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, fromstring

from readers.formats.boxes.checks import read_flag, stated_length
from readers.formats.columns import shorten
from readers.formats.text import finite_number

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_CORNER = re.compile(r"[xy]\d*")  # tags of an outline: x1, y1, x2 (Roboflow), or x and y in points
_CAPITALS = re.compile(
    r"</?[a-z_]*[A-Z]"
)  # in a tag; searched for first, as next to no file has any
# Where no zeros are, UTF-16 is no declaration that counts: an editor stored the text anew.
_DECLARED = re.compile(
    rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["'](?!(?i:utf-?(?:16|32)|ucs))([A-Za-z0-9._:-]{1,40})["']"""
)
# Encodings of scripts alone: Python's codecs also hold idna and punycode, whose time grows with the square of a text's length.
_OF_SCRIPTS = re.compile(
    "utf-?8|(?:us-?)?ascii|(?:x-)?(?:iso|latin|windows|cp|mac|gb|hz|big5|shift|sjis|ms|euc|koi8|ks|johab|tis)[-_0-9a-z.]*"
)
# Windows writes characters of the wider set under the name of the narrower one.
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}


class VocObject(NamedTuple):
    """An object as it is written.

    Attributes:
        name: Name of its class.
        box: xmin, ymin, xmax, ymax, of an outline where the object has no bndbox.
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
        height, width = (
            stated_length(found.findtext(side), f"{name}: {side}") for side in ("height", "width")
        )
        size = height, width
    objects = [
        _object(one, f"{name} object {number}")
        for number, one in enumerate(root.findall("object"), start=1)
    ]
    return VocAnnotation(size if min(size) > 0 else None, objects)


def parse_names(data: bytes, name: str) -> list[str]:
    """Return the names of the objects of an annotation, whatever else is wrong with these; see `parse_annotation`."""
    objects = enumerate(_parse(data, name).findall("object"), start=1)
    return [_name(one, f"{name} object {number}") for number, one in objects]


def looks_like_annotation(head: bytes) -> bool:
    """Whether the first bytes of a file are those of such XML."""
    try:
        text = decode_xml(head, "ignore").lstrip()
    except ValueError:
        return False
    text = text.lower()
    return text.startswith("<annotation") or (text.startswith("<?xml") and "<annotation" in text)


def decode_xml(data: bytes, errors: str = "strict") -> str:
    """Return XML as text, by its byte order mark, its zeros, or the encoding that it declares.

    The parser itself knows none of several bytes a character, such as GB2312.

    Args:
        data: The file's content, or its beginning.
        errors: What to do with bytes that are none of the encoding; see `bytes.decode`.

    Raises:
        ValueError: The encoding is not known, or the bytes are not of it; the text names it.
    """
    encoding: str = json.detect_encoding(data)  # UTF-8, 16 or 32
    declared = _DECLARED.match(data) if encoding == "utf-8" else None
    if declared:
        encoding = str(declared[1], "ascii").lower()
    try:
        if declared and not _OF_SCRIPTS.fullmatch(encoding):
            raise LookupError(f"unknown encoding {encoding}")
        return data.decode(_WIDER.get(encoding, encoding), errors)
    except (LookupError, UnicodeDecodeError) as error:
        raise ValueError(f"its encoding {encoding} ({error}): store it in UTF-8") from None


def _parse(data: bytes, name: str) -> Element:
    try:
        text = decode_xml(data)
        if "<!DOCTYPE" in text or "<!ENTITY" in text or "\0" in text:
            raise ValueError("it has entities or zeros, which an annotation has not")
        root = fromstring(text)
    except (ParseError, ValueError) as error:
        raise ValueError(f"{name} is no XML that can be read: {error}") from None
    if _CAPITALS.search(text):
        for element in root.iter():
            element.tag = element.tag.lower()
    if root.tag != "annotation":
        raise ValueError(f"{name} holds <{shorten(root.tag)}>, not <annotation>")
    return root


def _object(one: Element, where: str) -> VocObject:
    name = _name(one, where)
    box = _box(one, f"{where} ({shorten(name)})", where)
    pose = (one.findtext("pose") or "").strip() or "Unspecified"
    difficult, truncated = (
        read_flag(_text(one, field, where) or None, f"{where}: {field}")
        for field in ("difficult", "truncated")
    )
    return VocObject(name, box, difficult, truncated, pose)


def _name(one: Element, where: str) -> str:
    name = _text(one, "name", where)
    if not name:
        raise ValueError(f"{where} has no name")
    return name


def _box(one: Element, named: str, where: str) -> tuple[float, float, float, float]:
    box, outlines = _only(one, "bndbox", named), one.findall("polygon")
    if box is not None:
        left, top, right, bottom = (
            finite_number(_text(box, side, where), f"{where}: {side}") for side in _SIDES
        )
        return left, top, right, bottom
    if not outlines:
        turned = ", and its robndbox (a turned box) is not read" if one.findall("robndbox") else ""
        raise ValueError(f"{named} has no bndbox{turned}")
    corners = [
        part for outline in outlines for part in outline.iter() if _CORNER.fullmatch(part.tag)
    ]
    xs, ys = (
        [
            finite_number(part.text, f"{where}: {part.tag}")
            for part in corners
            if part.tag[0] == axis
        ]
        for axis in "xy"
    )
    if len(xs) != len(ys) or len(xs) < 3:
        raise ValueError(
            f"{named} has no bndbox, and a polygon of {len(xs)} x and {len(ys)} y, which must be 3 or more of each"
        )
    return min(xs), min(ys), max(xs), max(ys)


def _only(parent: Element, tag: str, where: str) -> Element | None:
    """Return the one child of a tag, None without; of several nobody knows which counts."""
    found = parent.findall(tag)
    if len(found) > 1:
        raise ValueError(f"{where} has {len(found)} times <{tag}>: write an object for each")
    return found[0] if found else None


def _text(parent: Element, tag: str, where: str) -> str:
    found = _only(parent, tag, where)
    return "" if found is None else (found.text or "").strip()
