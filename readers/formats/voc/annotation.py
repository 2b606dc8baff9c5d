"""Parser of Pascal VOC's XML files: the size of the picture, and its objects."""

import json
import re
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError, fromstring

from readers.formats.boxes.checks import read_flag, stated_length
from readers.formats.columns import shorten
from readers.formats.text import finite_number

# Degrees that are not 0; other text is an attribute of another meaning.
_ANGLE = re.compile(r"\s*-?(?=[0-9.]*[1-9])[0-9]{1,4}(?:\.[0-9]*)?\s*")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_CORNER = re.compile(r"[xy]\d*")  # tags of an outline: x1, y1, x2 (Roboflow), or x, y in points
# A capital letter in a tag. The text is searched for it, since hardly any file has one, and walking the tree takes longer.
_CAPITALS = re.compile(r"</?[a-z_]*[A-Z]")
# A declaration of UTF-16 is ignored in text without zeros, which an editor saved in another encoding.
_DECLARED = re.compile(
    rb"""\s*<\?xml[^>]*?\sencoding\s*=\s*["'](?!(?i:utf-?(?:16|32)|ucs))([A-Za-z0-9._:-]{1,40})["']"""
)
# Only encodings of scripts: Python also has idna and punycode, which take time quadratic in the text's length.
_OF_SCRIPTS = re.compile(
    "utf-?8|(?:us-?)?ascii|(?:x-)?(?:iso|latin|windows|cp|mac|gb|hz|big5|shift|sjis|ms|euc|koi8|ks|johab|tis)[-_0-9a-z.]*"
)
# Windows writes characters of a larger set under the name of a smaller one.
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}


class VocObject(NamedTuple):
    """An object with the values that its file states.

    Attributes:
        name: Class name.
        box: xmin, ymin, xmax, ymax; if the object has no bndbox, the extent of its outline.
        difficult: 1 if the object is hard to recognise, else 0.
        truncated: 1 if only a part of the object is visible, else 0.
        pose: Pose, such as "Left"; "Unspecified" if it is missing.
        is_turned: Whether the box is turned around its centre, by an angle that CVAT writes as the attribute rotation.
    """

    name: str
    box: tuple[float, float, float, float]
    difficult: int
    truncated: int
    pose: str
    is_turned: bool


class VocAnnotation(NamedTuple):
    """The content of one annotation file.

    Attributes:
        size: Height and width of the picture, None if one of them is missing or 0.
        objects: The objects in the order of the file, without their parts (heads, hands).
    """

    size: tuple[int, int] | None
    objects: list[VocObject]


def parse_annotation(data: bytes, name: str) -> VocAnnotation:
    """Parse an annotation file.

    Args:
        data: Content of the file.
        name: Name of the file, for errors.

    Raises:
        ValueError: The file is malformed; the text names the object (counted from 1) and the fault.
    """
    root = _parse(data, name)
    stated = root.find("size")
    size = (0, 0)
    if stated is not None:
        height, width = (
            stated_length(stated.findtext(side), f"{name}: {side}") for side in ("height", "width")
        )
        size = height, width
    objects = [
        _object(one, f"{name} object {number}")
        for number, one in enumerate(root.findall("object"), start=1)
    ]
    return VocAnnotation(size if min(size) > 0 else None, objects)


def parse_names(data: bytes, name: str) -> list[str]:
    """Return the class name of each object in an annotation file, even if the objects' boxes are malformed.

    See `parse_annotation` for the arguments and errors.
    """
    objects = enumerate(_parse(data, name).findall("object"), start=1)
    return [_name(one, f"{name} object {number}") for number, one in objects]


def looks_like_annotation(head: bytes) -> bool:
    """Return whether a file is an annotation of Pascal VOC, by its first bytes."""
    try:
        text = decode_xml(head, "ignore").lstrip()
    except ValueError:
        return False
    text = text.lower()
    return text.startswith("<annotation") or (text.startswith("<?xml") and "<annotation" in text)


def decode_xml(data: bytes, errors: str = "strict") -> str:
    """Decode XML by its byte order mark, its zero bytes, or the encoding that it declares; return it as str.

    Python's XML parser cannot decode encodings of several bytes per character, such as GB2312.

    Args:
        data: Content of the file, or its beginning.
        errors: Handling of bytes that do not fit the encoding; see `bytes.decode`.

    Raises:
        ValueError: The encoding is unknown, or the bytes do not fit it; the text names the encoding.
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
            raise ValueError("it has entities or zeros, which annotations never have")
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
    is_turned = any(
        each.findtext("name") == "rotation" and _ANGLE.fullmatch(each.findtext("value") or "")
        for each in one.iter("attribute")
    )
    return VocObject(name, box, difficult, truncated, pose, is_turned)


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
    """Return the only child element with a tag, None if there is none.

    Raises:
        ValueError: There are several such children.
    """
    children = parent.findall(tag)
    if len(children) > 1:
        raise ValueError(f"{where} has {len(children)} times <{tag}>: write an object for each")
    return children[0] if children else None


def _text(parent: Element, tag: str, where: str) -> str:
    element = _only(parent, tag, where)
    return "" if element is None else (element.text or "").strip()
