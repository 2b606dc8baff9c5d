"""COCO's annotations: one JSON file with images, objects and categories, and the images beside it."""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.dataset import IndexedDataset
from readers.formats.coco.masks import rasterise, write_png
from readers.formats.columns import shorten, to_payload
from readers.formats.files.beside import FilesBelow
from readers.formats.registry import require
from readers.sample import (
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    Sample,
    SourceError,
    is_image_file,
)
from readers.storage.blob import Content, open_blob
from readers.storage.blob.content_hash import pin_content
from readers.storage.index import Entry, Scan
from readers.storage.shards import ShardDataset
from readers.storage.unreadable import unreadable

_SPACE = re.compile(r"[ \t\r\n]*")
_NUM_SIZES = 4096


class CocoDataset(IndexedDataset):
    """The images of a COCO file with their objects, in the order of the list ``images``.

    Each sample has the image under its extension, and the field ``json``, in which the loader looks for
    targets:

    - ``boxes``: x, y, x, y in pixels of the stored image, from COCO's x, y, width, height;
    - ``labels``: the object's category, counted from 0 in the order of the category numbers; `class_names`
      has their names;
    - ``keypoints``, ``keypoint_labels``: where an object has keypoints, those that are labelled (v > 0), of
      all objects, and each one's number in its category's list;
    - ``iscrowd``, ``area``: as in the file, one for each box.

    Images without objects have empty lists. The label of a sample is -1: an image has no one class. An
    object without a box that has a width and a height is left out.

    The file is indexed once (see `readers.storage.index`), in the memory of about three times its size; objects
    are read when they are fetched.

    Args:
        annotations: The JSON file, such as ``annotations/instances_train2017.json``.
        images: Folder of the images. None takes the first of these that holds the first image: the folder
            named as the file ends (``train2017``) beside the file or its folder, ``images`` with or without
            such a folder, and the file's own.
        masks: Each object is a field too, ``mask.0.png`` and so on in the order of the boxes: 1 where it is,
            else 0. Polygons need the package pycocotools (the extra ``coco``).
        crowd: Regions that hold several objects (``iscrowd``) count as objects.

    Raises:
        SourceError: The file is missing, cut off, no JSON of this kind or lists no images; no folder
            holds the first one; or there are masks to read and no pycocotools.
    """

    def __init__(
        self,
        annotations: PathLike,
        *,
        images: PathLike | None = None,
        masks: bool = False,
        crowd: bool = False,
    ) -> None:
        images = None if images is None else Path(images).absolute()
        self._options: dict[str, Any] = {"images": images, "masks": masks, "crowd": crowd}
        self._stored = ShardDataset([annotations], Scan("coco", 1, find_images))
        path = Path(self._stored.shards[0])
        root = images or _find_images(path, self._first())
        self._files = FilesBelow(root, "the folder of the images")
        if masks:
            require("pycocotools.mask", extra="coco")

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process opens the file itself."""
        return partial(type(self), **self._options), (self._stored.shards[0],)

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the categories, in the order of their numbers in the file."""
        return tuple(str(category.get("name", "")) for category in self._categories.values())

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the file's name and content, the sizes of 4096 images, and crowd and masks.

        See `pin_content` for the content. The images are spread evenly over the list.
        """
        digest = hashlib.sha256(self._stored.fingerprint.encode())
        with unreadable(str(self._stored.shards[0])):
            digest.update(pin_content(open_blob(self._stored.shards[0])).encode())
        rows = np.unique(np.linspace(0, len(self) - 1, min(len(self), _NUM_SIZES)).astype(np.int64))
        names = [_name_or_key(entry) for entry in self._stored.fetch(rows)]
        digest.update(repr(self._files.sizes(names)).encode())
        digest.update(repr((self._options["masks"], self._options["crowd"])).encode())
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; heights and widths are as the file states."""
        if name == "num_bytes":
            return np.full(len(self), -1, np.int64)
        return self._stored.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read images and objects; see `Dataset.fetch`."""
        return [
            entry if isinstance(entry, BadSample) else self._read(entry)
            for entry in self._stored.fetch(indices)
        ]

    def _read(self, entry: Sample) -> Sample | BadSample:
        try:
            name = _name(entry)
            image = name.rpartition(".")[2].lower() if is_image_file(name) else "jpg"
            objects = [
                one
                for field, text in entry.fields.items()
                if field not in ("image", "categories") and self._counts(one := _parse(text))
            ]
            fields: dict[str, Payload] = {image: self._files.read(name)}
            fields["json"] = to_payload(_targets(objects, self._categories))
            if self._options["masks"]:
                height, width = entry.size or (0, 0)
                for number, one in enumerate(objects):
                    mask = rasterise(one.get("segmentation"), height, width)
                    fields[f"mask.{number}.png"] = write_png(mask)
        except (ValueError, SourceError) as error:
            return BadSample(entry.index, entry.key, "read", str(error))
        # Not the size: the file says it for people, and an image of another size shall be found out.
        return Sample(entry.index, entry.key, fields, image_field=image)

    def _counts(self, one: Mapping[str, Any]) -> bool:
        return (
            "bbox" in one
            and _is_box(one["bbox"])
            and (self._options["crowd"] or not one.get("iscrowd"))
        )

    @cached_property
    def _categories(self) -> dict[int, dict[str, Any]]:
        """Number in the file -> category, sorted by number."""
        entry = self._first()
        listed: Any = []
        if "categories" in entry.fields:
            listed = None
            with suppress(ValueError, RecursionError):
                # A wrong byte in a name is no reason to lose all objects.
                listed = json.loads(str(entry.fields["categories"], "utf-8", "replace"))
        if not _are_categories(listed):
            raise SourceError(f"{self._stored.shards[0]} has changed since it was opened")
        return {one["id"]: one for one in sorted(listed, key=lambda one: int(one["id"]))}

    def _first(self) -> Sample:
        """Return the first entry that can be read; a scan makes sure that there is one."""
        for index in range(len(self._stored)):
            [entry] = self._stored.fetch([index])
            if isinstance(entry, Sample):
                return entry
        raise SourceError(f"{self._stored.shards[0]} lists no image that can be read")


def find_images(content: Content, name: str) -> Iterator[Entry]:
    """Yield the images of a COCO file, and where their objects and the categories lie."""
    lists = _Lists(content, name)
    categories = (("categories", *lists.categories),) if lists.categories else ()
    any_sound = False
    for number, (start, stop) in enumerate(lists.images):
        try:
            image = _parse(content[start:stop])
            file = _file_name(image)
        except ValueError as error:
            yield Entry(f"images[{number}]", (), fault=f"images[{number}]: {error}")
            continue
        any_sound = True
        found = enumerate(lists.objects.get(image["id"], ()))
        members = (("image", start, stop), *categories, *((str(i), *span) for i, span in found))
        size: Any = (image.get("height"), image.get("width"))
        known = all(type(length) is int and 0 < length < 1 << 31 for length in size)
        key = f"images[{number}]" if file.startswith("/") else file
        yield Entry(key, members, size=size if known else None)
    if not any_sound:
        raise SourceError(f"{name} lists no images: give a file with images and their annotations")


class _Lists:
    """Where the elements of COCO's three lists lie in a file.

    Attributes:
        images: (start, stop) of each, in bytes.
        objects: Number of an image -> (start, stop) of its annotations.
        categories: (start, stop) of the whole list, or None.
    """

    def __init__(self, content: Content, name: str) -> None:
        self.images: list[tuple[int, int]] = []
        self.objects: dict[int, list[tuple[int, int]]] = {}
        self.categories: tuple[int, int] | None = None
        # One letter a byte: offsets in the text are offsets in the file, and JSON's own signs are ASCII.
        self._text = str(content[0 : len(content)], "latin-1")
        self._decode = json.JSONDecoder().raw_decode
        advice = "give a file of COCO's instances or keypoints, a JSON object with the list images"
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
                if name == "categories" and _are_categories(value):
                    self.categories = (start, offset)
            offset = self._behind(offset, "}")

    def _walk_list(self, offset: int, name: str) -> int:
        offset = self._skip(offset, "[")
        while self._text[offset] != "]":
            start = offset
            value, offset = self._decode(self._text, offset)
            if name == "images":
                self.images.append((start, offset))
            elif isinstance(value, dict) and type(image := value.get("image_id")) is int:
                self.objects.setdefault(image, []).append((start, offset))
            offset = self._behind(offset, "]")
        return offset + 1

    def _skip(self, offset: int, sign: str) -> int:
        """Return the offset of what follows a sign that must come."""
        offset = self._space(offset)
        if self._text[offset] != sign:
            raise ValueError(f"{sign} is missing at byte {offset}")
        return self._space(offset + 1)

    def _behind(self, offset: int, end: str) -> int:
        """Return the offset of the next element, or of the sign that ends them."""
        offset = self._space(offset)
        return offset if self._text[offset] == end else self._skip(offset, ",")

    def _space(self, offset: int) -> int:
        found = _SPACE.match(self._text, offset)
        return found.end() if found else offset


def _are_categories(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and type(one.get("id")) is int for one in value
    )


def _parse(text: Payload) -> dict[str, Any]:
    """Read an image or an object.

    Raises:
        ValueError: It is no JSON in UTF-8, or no object.
    """
    try:
        parsed = json.loads(str(text, "utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"it has a byte that is not UTF-8 ({error.reason})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ValueError(f"it is no JSON object but {shorten(parsed)}")
    return parsed


def _file_name(image: Mapping[str, Any]) -> str:
    """Return the name of an image's file.

    Raises:
        ValueError: The image lacks it or its number, or no file can have it.
    """
    name = image.get("file_name")
    if not isinstance(name, str) or not name or type(image.get("id")) is not int:
        raise ValueError("it has no file_name or no id that is a whole number")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(f"its file_name {shorten(name)} can be no file's") from None
    return name


def _name(entry: Sample) -> str:
    return _file_name(_parse(entry.fields["image"]))


def _name_or_key(entry: Sample | BadSample) -> str:
    """Return what a file is looked for under; of one whose name cannot be had the key."""
    with suppress(ValueError):
        if isinstance(entry, Sample):
            return _name(entry)
    return entry.key


def _is_box(box: Any) -> bool:
    numbers = isinstance(box, list) and len(box) == 4
    return numbers and all(isinstance(x, int | float) for x in box) and min(box[2:]) > 0


def _targets(
    objects: Sequence[Mapping[str, Any]], categories: Mapping[int, Mapping[str, Any]]
) -> dict[str, list[Any]]:
    """Return what the field json holds; see `CocoDataset`."""
    labels = {number: label for label, number in enumerate(categories)}
    found: dict[str, list[Any]] = {"boxes": [], "labels": [], "iscrowd": [], "area": []}
    for one in objects:
        x, y, width, height = one["bbox"]
        number = one.get("category_id")
        if type(number) is not int or (labels and number not in labels):
            raise ValueError(f"an object has the category_id {number!r}, which categories lacks")
        found["boxes"].append([x, y, x + width, y + height])
        found["labels"].append(labels.get(number, number))
        found["iscrowd"].append(int(bool(one.get("iscrowd"))))
        found["area"].append(one.get("area", width * height))
    if any("keypoints" in category for category in categories.values()):
        points = [point for one in objects for point in _keypoints(one.get("keypoints", []))]
        found["keypoints"] = [[x, y] for x, y, _ in points]
        found["keypoint_labels"] = [number for _, _, number in points]
    return found


def _keypoints(flat: Any) -> list[tuple[float, float, int]]:
    """Return x, y and number in the list of an object's labelled keypoints."""
    if not isinstance(flat, list) or len(flat) % 3:
        raise ValueError("an object's keypoints must be x, y and v of each")
    triples = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    return [(x, y, number) for number, (x, y, seen) in enumerate(triples) if seen]


def _find_images(path: Path, first: Sample) -> Path:
    """Return the folder that holds an image."""
    name = _name(first)
    folder = path.parent
    ends = path.stem.split("_")[-1]  # instances_train2017
    folders = [
        folder.parent / ends,
        folder / ends,
        folder.parent / "images" / ends,
        folder / "images" / ends,
        folder.parent / "images",
        folder / "images",
        folder,
    ]
    for candidate in folders:
        if FilesBelow(candidate, "the folder").sizes([name]) != [-1]:
            return candidate
    raise SourceError(
        f"none of the usual folders beside {path} holds {name}: name the folder with images="
    )
