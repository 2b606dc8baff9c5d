"""Datasets of manifests: text files with one JSON object per line, each of which names an image or video file."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from readers.formats.boxes.checks import OTHER_NAMES
from readers.formats.columns import (
    CORNERS,
    IMAGE_NAMES,
    UNREADABLE,
    VIDEO_NAMES,
    shorten,
    to_key,
    to_label,
    to_payload,
)
from readers.formats.files.described import DescribedFiles, FilesBelow, lines_of
from readers.formats.text import parse_object
from readers.labels.classes import Classes, Numbering, read_classes
from readers.sample import (
    VIDEO_FIELDS,
    BadSample,
    PathLike,
    Payload,
    Sample,
    SourceError,
    is_image_file,
)
from readers.storage.blob import Content
from readers.storage.index import Entry, Scan
from readers.storage.index.index_file import Remark
from readers.storage.limits import check_bytes

# Usual names of columns; the first that a line has is taken.
_IMAGE_COLUMNS = (
    *("image", "image_path", "img_path", "file_name", "file", "filepath", "filename", "path"),
    *(name for name in IMAGE_NAMES if name not in ("image", "bytes")),
    *("video_path", *VIDEO_NAMES),
)
_LABEL_COLUMNS = ("label", "cls", "class", "target", "labels")
_KEY_COLUMNS = ("__key__", "key", "id")
_MASK_COLUMNS = ("mask", "mask_path", "mask_file", "seg", "segmentation")
_TARGETS = (
    *("boxes", "labels", "box_labels", "box_format", "keypoints", "keypoint_labels"),
    *("height", "width"),  # the loader compares them with the image's size, to check boxes
)
# Start of a hidden remark in the index, followed by the split of all lines, or by nothing if splits differ.
_SPLITS = "holds the split"
_PARSED_BYTES = 32  # memory for each byte of JSON while it is parsed, about the maximum


class ManifestDataset(DescribedFiles):
    """Image or video files that the lines of a manifest name, in the order of the lines.

    A line is a JSON object such as ``{"image": "cats/1.jpg", "label": 3, "source": "flickr"}`` or
    ``{"video": "cats/1.mp4", "start_seconds": 1.5, "end_seconds": 4}``. Paths are relative to the manifest's
    folder. The file's content becomes the field named by its extension (``jpg``); videos are mapped, not read. Every other column
    becomes a field, text as UTF-8 and other values as JSON. In addition

    - ``boxes``, ``labels``, ``keypoints`` and ``keypoint_labels`` together become the field ``json``, from
      which the loader reads targets. Boxes are x, y, x, y in pixels of the upright image, unless a column ``box_format``
      names another format (one of gpu_aug.BoxParams);
    - ``mask`` (or ``mask_path``, ``seg``, ``segmentation``), the path of a PNG, becomes the field
      ``mask.png``, and ``masks``, a list of paths, ``mask.0.png`` and so on.

    The lines are indexed once (see `readers.storage.index`). A line that is no such object, or whose file cannot
    be read, becomes a BadSample. Empty lines are skipped.

    Args:
        path: Path of the manifest, in UTF-8.
        image: Column of the path of the image or video; if None, the first usual name that exists.
        label: Column of the class; if None, the first usual name that exists. It holds class numbers, or also names if
            ``classes`` is given.
        key: Column of the keys; if None, ``__key__``, ``key`` or ``id``, or else the image's path.
        root: Folder that paths are relative to; absolute paths must lie below it. None for the manifest's folder.
        classes: Names of the classes in the order of their numbers, or a file with one name per line.

    Raises:
        SourceError: The manifest is missing or names no file; or its first object has neither an image nor a video, or lacks
            a column that an argument names.
    """

    declares_count = False

    def __init__(
        self,
        path: PathLike,
        *,
        image: str | None = None,
        label: str | None = None,
        key: str | None = None,
        root: PathLike | None = None,
        classes: Classes | None = None,
    ) -> None:
        path = Path(path).absolute()
        reads: dict[str, Any] = {"image": image, "label": label, "key": key}
        self._class_names = read_classes(classes) or ()
        if self._class_names:
            reads["classes"] = list(self._class_names)
        self._reader = LineReader(**reads)
        folder = None if root is None else Path(root).absolute()
        scan = Scan("manifest", 3, self._reader.find_lines, reads)
        super().__init__(path, scan, reads | {"root": folder})
        what = "the folder of the manifest" if root is None else "the root folder"
        self._files = FilesBelow(folder or path.parent, what)
        self._remarks = tuple(one for one in self._stored.scan_remarks if _SPLITS not in one)
        [first] = self._stored.fetch([0])  # its columns are taken as those of all lines
        fields = (
            {} if isinstance(first, BadSample) else self._reader.read(first.fields["line"]).columns
        )
        if self._stored.unlabelled:
            self.unlabelled = self._stored.unlabelled[0], fields, ""

    def splits_of_lines(self) -> list[str]:
        """Return the split that each line states, "" for a line without one; an empty list if no line states a split."""
        remark = next((one for one in self._stored.scan_remarks if _SPLITS in one), "")
        only = remark.rpartition(_SPLITS)[2].strip()
        if only or not remark:
            return [only] * len(self) if only else []
        parts = (range(len(self))[start : start + 4096] for start in range(0, len(self), 4096))
        return [
            _split_of(parse_object(one.fields["line"])) if isinstance(one, Sample) else ""
            for part in parts
            for one in self._stored.fetch(part)
        ]

    def _identity(self) -> bytes:
        named = f"classes {list(self._class_names)}" if self._class_names else ""
        return named.encode("utf-8", "surrogateescape")

    def _name_of(self, entry: Sample | BadSample) -> str | None:
        with suppress(ValueError):  # the file was damaged since it was opened
            if isinstance(entry, Sample):
                return self._reader.read(entry.fields["line"]).path
        return None

    def _read(self, entry: Sample) -> Sample:
        record = self._reader.read(entry.fields["line"])
        ending = record.path.rpartition(".")[2].lower()
        is_video = ending in VIDEO_FIELDS
        image = ending if is_video or is_image_file(record.path) else "jpg"
        fields: dict[str, Payload] = {image: self._files.read(record.path, mapped=is_video)}
        for name, path in _mask_files(record.columns).items():
            fields[name] = self._files.read(path)
        for name, payload in _other_fields(record.columns).items():
            fields.setdefault(name, payload)
        return Sample(entry.index, entry.key, fields, record.label, image_field=image)


class Record(NamedTuple):
    """The content of one line of a manifest.

    Attributes:
        path: Path of the image or video, as written.
        key: Key of the sample.
        label: Class number, -1 for none.
        columns: Values of all columns except that of the path, by name.
    """

    path: str
    key: str
    label: int
    columns: dict[str, Any]


@dataclass(frozen=True)
class LineReader:
    """Parses the lines of a manifest; see `ManifestDataset` for the options."""

    image: str | None = None
    label: str | None = None
    key: str | None = None
    classes: Sequence[str] = ()

    def find_lines(self, content: Content, name: str) -> Iterator[Entry | Remark]:
        """Yield an index entry for each line that is not empty, then remarks about boxes and splits.

        Raises:
            SourceError: No line names a file, or the first object lacks a column.
        """
        first, splits, others = True, set[str](), set[str]()
        num_samples, fault = 0, "it is empty"
        for number, (start, stop) in enumerate(lines_of(content), start=1):
            label = UNREADABLE
            try:
                check_bytes(_PARSED_BYTES * (stop - start), "it")
                line = bytes(content[start:stop])
                if not line.strip():
                    continue
                columns = parse_object(line)
                if first:
                    self._check(columns, name)
                    first = False
                label = self._label(columns)
                record = self._record(columns)
            except ValueError as error:
                fault = str(error)
                yield Entry(f"line {number}", (), label, fault=f"line {number}: {fault}")
                continue
            num_samples += 1
            splits.add(_split_of(columns))
            if "boxes" not in columns:
                others |= columns.keys() & OTHER_NAMES
            key = f"line {number}" if record.key.startswith("/") else record.key
            yield Entry(key, (("line", start, stop),), label)
        if not num_samples and fault.startswith("the label "):
            raise SourceError(
                f"{name} has no label that can be read ({fault}): where labels are names, give all of these in the order of "
                "their numbers, classes=['cat', 'dog']"
            )
        if not num_samples:
            raise SourceError(
                f"{name} names no files ({fault}): write a JSON object per line, such as "
                '{"image": "cats/1.jpg", "label": 3}'
            )
        if others:
            yield Remark(
                f"has the column {min(others)!r} in lines without 'boxes',",
                'whose pictures are read as ones without boxes: write "boxes": [[left, top, right, bottom], ...]',
            )
        if splits != {""}:
            yield Remark(_SPLITS, "" if len(splits) > 1 else next(iter(splits)))

    def read(self, line: Payload) -> Record:
        """Return the parsed content of a line.

        Raises:
            ValueError: The line is no JSON object with a path and a valid label; the text is a short reason.
        """
        return self._record(parse_object(line))

    def _record(self, columns: dict[str, Any]) -> Record:
        column = _pick(columns, self.image, _IMAGE_COLUMNS)
        path = columns.pop(column, None) if column else None
        if not isinstance(path, str) or not path:
            what = "no image's path" if path is None else f"an image's path that is {shorten(path)}"
            raise ValueError(f"it has {what}")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise ValueError(f"its image's path {shorten(path)} can be no file's") from None
        number = self._label(columns)
        key = _pick(columns, self.key, _KEY_COLUMNS)
        name = columns.get(key) if key else None
        return Record(path, to_key(path if name is None else name), number, columns)

    def _label(self, columns: Mapping[str, Any]) -> int:
        """Return the class number of a line, -1 for none and for a list that belongs to boxes or keypoints.

        Raises:
            ValueError: The label is no class number, or no name in ``classes``.
        """
        name = _pick(columns, self.label, _LABEL_COLUMNS)
        value = columns.get(name) if name else None
        if (
            self.label is None
            and isinstance(value, list)
            and (name == "labels" or "boxes" in columns or "keypoints" in columns)
        ):
            return -1
        if isinstance(value, bool):  # Python would take it for 0 or 1
            raise ValueError(f"the label {json.dumps(value)} is no class number: write 0 or 1")
        if not self.classes or value is None:
            return to_label(value)
        return self._numbering.number(value if isinstance(value, str) else to_label(value))

    @cached_property
    def _numbering(self) -> Numbering:
        return Numbering(tuple(self.classes), as_numbers=False)

    def _check(self, columns: dict[str, Any], name: str) -> None:
        have = ", ".join(columns) or "none"
        for role, asked in (("image", self.image), ("label", self.label), ("key", self.key)):
            if asked is not None and asked not in columns:
                raise SourceError(
                    f"{name} has no column {asked!r} for {role}=: its columns are {have}"
                )
        if _pick(columns, self.image, _IMAGE_COLUMNS) is None:
            raise SourceError(
                f"{name} has no column with a usual name for the image or video (its columns are {have}): "
                "name it with image="
            )


def _split_of(columns: Mapping[str, Any]) -> str:
    value = next((columns[name] for name in columns if name.lower() == "split"), None)
    return str(value).strip() if isinstance(value, str | int) else ""


def _pick(columns: Mapping[str, Any], asked: str | None, usual: tuple[str, ...]) -> str | None:
    return asked or next((name for name in usual if name in columns), None)


def _mask_files(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the paths of mask files by the names of their fields, such as ``mask.png``."""
    listed = columns.get("masks")
    if isinstance(listed, list) and all(isinstance(path, str) for path in listed):
        return {f"mask.{number}.png": path for number, path in enumerate(listed)}
    one = next((path for name in _MASK_COLUMNS if (path := columns.get(name)) is not None), None)
    return {"mask.png": one} if isinstance(one, str) else {}


def _other_fields(columns: Mapping[str, Any]) -> dict[str, Payload]:
    fields: dict[str, Payload] = {}
    if "boxes" in columns or "keypoints" in columns:
        targets = {name: columns[name] for name in _TARGETS if name in columns}
        fields["json"] = to_payload(CORNERS | targets)
    for name, value in columns.items():
        if value is not None:
            fields.setdefault(name, to_payload(value))
    return fields
