"""Finding the images, annotations and categories of a COCO file: their offsets in its bytes."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from readers.formats.boxes.checks import stated_length
from readers.formats.coco.targets import (
    are_categories,
    file_name,
    is_box,
    is_id,
    parse,
    rotation_of,
    upright_box,
)
from readers.sample import SourceError
from readers.storage.blob import Content
from readers.storage.index import Entry
from readers.storage.limits import check_bytes
from readers.storage.whole_files import TEXT_TIMES

CAPTION, SEGMENTS = "caption.", "segments."
"""Prefixes of the names of members that are no objects: captions, and the segments of a panoptic mask."""
IMAGE = "image"
"""Prefix of the name of the member that is the image; this member comes first.

An index holds samples only, so the counts for warnings about the file stand behind this prefix in the first sample. Names of
members are part of a dataset's fingerprint, so a further count must be 0, and thus absent, for the files that it is not about.
"""
# Share of boxes that leave their images: about three quarters of x, y, x, y boxes do if they are read as x, y, w, h.
_SHARE_BEYOND = 0.25
_FEW_BOXES = 16  # fewer boxes prove nothing
# Largest x + w of boxes that are shares of their images: 1, or 2 for x, y, x, y.
_LARGEST_SHARE = 2
_HEAD_BYTES = 64  # enough to tell the encoding and the first brace or bracket
_SPACE = re.compile(r"[ \t\r\n]*")


def find_images(content: Content, name: str) -> Iterator[Entry]:
    """Yield the images of a COCO file with the offsets of their objects and of the categories."""
    lists = _Lists(content, name)
    categories = (("categories", *lists.categories),) if lists.categories else ()
    notes = lists.notes()
    any_sound, first_fault = False, ""
    for number, (start, stop) in enumerate(lists.images):
        try:
            image = parse(content[start:stop])
            file = file_name(image)
            height, width = (stated_length(image.get(side), side) for side in ("height", "width"))
        except ValueError as error:
            fault = f"images[{number}]: {error}"
            first_fault = first_fault or fault
            yield Entry(f"images[{number}]", (), fault=fault)
            continue
        numbered = enumerate(lists.objects.get(image["id"], ()))
        objects = ((f"{one.kind}{i}", one.start, one.stop) for i, one in numbered)
        members = ((IMAGE + ("" if any_sound else notes), start, stop), *categories, *objects)
        any_sound = True
        key = f"images[{number}]" if file.startswith("/") else file
        yield Entry(key, members, size=(height, width) if height and width else None)
    if not any_sound:
        raise SourceError(f"{name} lists no images that can be read: {first_fault}")


class _Annotation(NamedTuple):
    """The kind and offsets of an annotation, and the right and bottom of its box, 0 without a box."""

    kind: str
    start: int
    stop: int
    right: float = 0
    bottom: float = 0
    is_flat: bool = False


class _Lists:
    """The offsets of the elements of COCO's three lists in a file.

    Attributes:
        images: (start, stop) of each image, in bytes.
        sizes: Id of an image -> its width and height, None if they are not stated.
        names: Id of an image -> name of its file.
        objects: Id of an image -> its annotations.
        categories: (start, stop) of the complete list, or None.
    """

    def __init__(self, content: Content, name: str) -> None:
        self.images: list[tuple[int, int]] = []
        self.sizes: dict[int | str, tuple[float, float] | None] = {}
        self.names: dict[int | str, str] = {}
        self._name = name
        self._num_unassigned = 0  # annotations that name no image
        self._num_with = {"turned": 0, "points": 0}  # annotations with an angle, and with keypoints
        self.objects: dict[int | str, list[_Annotation]] = {}
        self.categories: tuple[int, int] | None = None
        self._decode = json.JSONDecoder().raw_decode
        advice = "give a file of COCO's instances or keypoints, a JSON object with the list images"
        head = bytes(content[:_HEAD_BYTES])
        if head and not any(head):  # a sparse file; its gigabytes of zeros need not be read
            raise SourceError(f"{name} begins with zeros and is no JSON: {advice}")
        if not json.detect_encoding(head).startswith("utf-8"):
            raise SourceError(f"{name} is in UTF-16 or UTF-32: store it in UTF-8")
        try:
            check_bytes(len(content), "it", times=TEXT_TIMES)
        except ValueError as error:
            raise SourceError(f"{name} cannot be read: {error}") from None
        # In Latin-1 each byte is one letter, so offsets in the text are offsets in the file, and JSON's own signs are ASCII.
        self._text = str(content[0 : len(content)], "latin-1")
        if self._text[:_HEAD_BYTES].lstrip("\xef\xbb\xbf \t\r\n").startswith("["):
            raise SourceError(
                f"{name} is a JSON list, and lists no images as COCO does: {advice}, or write its elements as lines of a .jsonl file"
            )
        try:
            self._walk()
        except (ValueError, IndexError, RecursionError) as error:
            raise SourceError(
                f"{name} is cut off or no JSON that can be read ({error}): {advice}"
            ) from None
        if not self.images:
            raise SourceError(f"{name} lists no images: {advice}")

    def _walk(self) -> None:
        offset = self._skip(3 if self._text.startswith("\xef\xbb\xbf") else 0, "{")
        while self._text[offset] != "}":
            name, offset = self._decode(self._text, offset)
            offset = self._skip(offset, ":")
            start = offset
            if name in ("images", "annotations") and self._text[offset] == "[":
                offset = self._walk_list(offset, name)
            else:
                value, offset = self._decode(self._text, offset)
                if name == "annotations" and value is not None:
                    raise SourceError(
                        f"{self._name}: annotations must be a list, got {type(value).__name__}: correct it"
                    )
                if name == "categories" and value is not None:
                    self._check_categories(value)
                    self.categories = (start, offset)
            offset = self._behind(offset, "}")

    def _walk_list(self, offset: int, name: str) -> int:
        offset = self._skip(offset, "[")
        while self._text[offset] != "]":
            start = offset
            value, offset = self._decode(self._text, offset)
            if name == "images":
                self.images.append((start, offset))
                self._keep_size(value)
            elif isinstance(value, dict) and is_id(value.get("image_id")):
                annotation = _annotation(value, start, offset)
                self.objects.setdefault(_as_utf8(value["image_id"]), []).append(annotation)
                self._num_with["turned"] += bool(rotation_of(value))
                self._num_with["points"] += bool(value.get("keypoints"))
            else:
                self._num_unassigned += 1
            offset = self._behind(offset, "]")
        return offset + 1

    def _keep_size(self, image: Any) -> None:
        if isinstance(image, dict) and is_id(image.get("id")):
            width, height = image.get("width"), image.get("height")
            number = self._add("image", self.names, image, "file_name")
            self.sizes[number] = None
            if isinstance(width, int | float) and isinstance(height, int | float):
                self.sizes[number] = width, height

    def _check_categories(self, listed: Any) -> None:
        """Refuse a value that is no list of categories, and two categories of one id."""
        if not are_categories(listed):
            raise SourceError(
                f"{self._name}: categories must be a list of objects whose ids are all whole numbers, or all text: correct it"
            )
        names: dict[int | str, str] = {}
        for one in listed:
            self._add("category", names, one, "name")

    def _add(self, what: str, names: dict[int | str, str], one: Any, field: str) -> int | str:
        """Add the name of an image or category to the names of its kind, and return its id, which must be unique."""
        number, name = _as_utf8(one["id"]), str(_as_utf8(one.get(field, "")))
        if number in names:
            raise SourceError(
                f"{self._name} gives the {what} id {number!r} to {names[number]} and to {name}, so that it is unclear which of them "
                "annotations mean: number them anew (merged files usually need that)"
            )
        names[number] = name
        return number

    def notes(self) -> str:
        """Return the counts for warnings about the file, as JSON: see `CocoDataset.remarks`; "" if all are 0."""
        unlisted = [image for image in self.objects if image not in self.sizes]
        num_lost = self._num_unassigned + sum(len(self.objects[image]) for image in unlisted)
        are_text = [{isinstance(one, str) for one in ids} for ids in (unlisted, self.sizes)]
        boxes = beyond = shares = 0
        for image, size in self.sizes.items():
            some = [one for one in self.objects.get(image, ()) if one.right] if size else []
            boxes += len(some)
            if size:
                beyond += sum(one.right > size[0] + 1 or one.bottom > size[1] + 1 for one in some)
            if size and min(size) > _LARGEST_SHARE:
                shares += sum(max(one.right, one.bottom) <= _LARGEST_SHARE for one in some)
        is_beyond = boxes >= _FEW_BOXES and beyond > _SHARE_BEYOND * boxes
        counts = {
            "bare": 0 if self.objects or self._num_unassigned else len(self.images),
            "lost": num_lost,
            "kinds": int(bool(unlisted) and are_text[0].isdisjoint(are_text[1])),
            "flat": sum(one.is_flat for some in self.objects.values() for one in some),
            "again": len(self.names) - len({*self.names.values()}),
            "shares": shares if shares == boxes else 0,
            "beyond": round(100 * beyond / boxes) if is_beyond else 0,
            **self._num_with,
        }
        counts = {name: count for name, count in counts.items() if count}
        return json.dumps(counts) if counts else ""

    def _skip(self, offset: int, sign: str) -> int:
        """Return the offset after the next sign and the white space around it; another sign is an error."""
        offset = self._space(offset)
        if self._text[offset] != sign:
            raise ValueError(f"{sign} is missing at byte {offset}")
        return self._space(offset + 1)

    def _behind(self, offset: int, end: str) -> int:
        """Return the offset of the next element, or of the sign that ends the list or object."""
        offset = self._space(offset)
        return offset if self._text[offset] == end else self._skip(offset, ",")

    def _space(self, offset: int) -> int:
        match = _SPACE.match(self._text, offset)
        return match.end() if match else offset


def _annotation(value: dict[str, Any], start: int, stop: int) -> _Annotation:
    if "segments_info" in value:
        return _Annotation(SEGMENTS, start, stop)
    if "caption" in value and "bbox" not in value:
        return _Annotation(CAPTION, start, stop)
    box = value.get("bbox")
    if isinstance(box, list) and is_box(box):
        with suppress(OverflowError):  # numbers with hundreds of digits
            return _Annotation("", start, stop, box[0] + box[2], box[1] + box[3])
    is_flat = False
    with suppress(ValueError):  # a broken box makes a bad sample later, and does not count as flat
        is_flat = not isinstance(value.get("segmentation"), dict) and not upright_box(
            value, "xywh", None
        )
    return _Annotation("", start, stop, is_flat=is_flat)


def _as_utf8(value: int | str) -> int | str:
    """Return an id that was decoded as Latin-1, decoded as UTF-8."""
    if isinstance(value, str):
        with suppress(UnicodeError):
            return value.encode("latin-1").decode()
    return value
