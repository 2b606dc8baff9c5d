"""Datasets of image files that the rows of a CSV, TSV, JSON lines, Parquet or Arrow file name."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.datasets.located import Located, Reads
from readers.fingerprint import fingerprint_of
from readers.formats.boxes.checks import Coords, require_stated_size
from readers.formats.files import FileDataset, Names
from readers.formats.files.packed import Packed
from readers.formats.folder import find_root
from readers.formats.path_table.contents import read_contents
from readers.formats.path_table.metadata_folder import METADATA_NAMES, is_named_split
from readers.formats.path_table.read import read_table
from readers.formats.path_table.roles import choose_rows
from readers.formats.path_table.table import BoxFormat, TableOptions
from readers.image.header import image_size
from readers.labels.classes import Classes, read_classes
from readers.labels.label_vector import LabelShape
from readers.sample import (
    IMAGE_FIELDS,
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    Sample,
    is_image_file,
)
from readers.storage.unreadable import is_transient, reason_of
from readers.storage.whole_files import read_whole

_VERSION = "path table 1"
# Appended when boxes are read: the fingerprint covers the stored text, which is older than this mark.
_CORNERS = b',"box_format":"xyxy"}'


class PathTableDataset(FileDataset):
    """Image files that the rows of a table name, with one sample per row or per image.

    A text file must be UTF-8 with the names of its columns in the first row. Its cells are read as text: "0007" keeps its
    zeros, and "NA" is not a missing value. Every column except that of the paths becomes a field, text as UTF-8, other values
    as JSON. Paths are relative to the table's folder, or absolute; a name without extension stands for the only image file
    of that name. A missing file is a bad sample when it is fetched.

    A file called metadata.csv, .jsonl or .parquet follows the rules of Hugging Face's ImageFolder: ``file_name`` names the
    image, ``NAME_file_name`` and ``NAME_file_names`` name further files of the sample (``mask_file_name`` its mask), and
    no path may leave its folder.

    With ``boxes`` or ``multi_label=True``, all rows of an image make up one sample; if a column has different
    values in these rows, its field is a JSON list of them.

    Args:
        path: Path of the table. ``.parquet`` and ``.arrow`` files are read by pyarrow, ``.jsonl`` files as JSON lines, all
            others as text.
        image: Column of the paths; if None, the first usual name that exists, or else the column that holds names of image
            files.
        label: Column of the class, by name or number; cells may also hold a JSON list of classes, or of the numbers of a
            vector. A list of columns makes their numbers a vector (several classes, shares of classes, numbers to regress),
            float32 [K]. If None, the first usual name that exists.
        key: Column of the keys; if None, ``__key__``, ``key`` or ``id``, or else the path is the key.
        classes: Names of the classes in the order of their numbers, or a file with one name per line. If None, integer
            labels are class numbers, and all other labels are names, numbered in sorted order.
        label_separator: Text between the classes of a sample in one cell, such as ``" "``; labels are then
            multi-hot vectors, float32 [K], all 0 for an empty cell.
        multi_label: If True, labels are multi-hot vectors, the rows of an image are joined, and numbers in lists are class
            numbers. If False, lists of integers are vectors. If None, a list of integers that may be either is an error.
        boxes: Four columns of numbers, with one box per row, or one column of JSON, with a box or a list of boxes per row. Boxes
            become the field ``json``, in pixels of the upright image, and ``label`` is the class of each box. If there are
            columns ``width`` and ``height``, an image of another size is a bad sample.
        box_format: "xyxy" for left, top, right, bottom; "xywh" for left, top, width, height.
        coords: "one-based" if pixel coordinates count from 1 and include both ends, as in tables made from Pascal VOC's files
            (for TensorFlow's object detection), or "zero-based". If None, all boxes in four columns are examined: they count
            from 1 if none begins at 0, one begins at 1 and one ends at the width or height; otherwise they count from 0. A
            warning says which was taken, unless the boxes show that they count from 0.
        split: Name of the split whose rows are read; None if there is only one.
        split_column: Column of the split; None for ``split``, if it exists.
        root: Folder that paths are relative to; None for the table's folder.
        delimiter: Character between cells; None to recognise comma, semicolon or tab.
        header: Names of the columns, for a text file without a header row.

    Raises:
        SourceError: The table cannot be read; a column that an argument names is missing; there are several splits but `split`
            is None; or a row is invalid. The text names file, line and value.

    Example:
        >>> table = PathTableDataset("photos.csv", split="train")
        >>> table.class_names, [sample.label for sample in table.fetch([0, 3])]
        (('cat', 'dog'), [0, 1])
    """

    declares_count = False

    def __init__(
        self,
        path: PathLike,
        *,
        image: str | None = None,
        label: str | Sequence[str] | None = None,
        key: str | None = None,
        classes: Classes | None = None,
        label_separator: str | None = None,
        multi_label: bool | None = None,
        boxes: str | Sequence[str] | None = None,
        box_format: BoxFormat = "xyxy",
        coords: Coords | None = None,
        split: str | None = None,
        split_column: str | None = None,
        root: PathLike | None = None,
        delimiter: str | None = None,
        header: Sequence[str] | None = None,
    ) -> None:
        path = Path(path).absolute()
        table = read_table(path, delimiter, header)
        is_metadata = path.name in METADATA_NAMES and root is None and image is None
        folder = path.parent if root is None else Path(root).absolute()
        options = TableOptions(
            image,
            label,
            key,
            read_classes(classes),
            label_separator,
            multi_label,
            boxes,
            box_format,
            coords,
        )
        rows, split_remark = choose_rows(table, split, split_column, is_named_split(path, split))
        found = read_contents(table, rows, folder, options, is_metadata=is_metadata)
        labels, class_names = found.labels.table, found.labels.class_names
        super().__init__(*find_root(folder, found.names), labels.class_numbers(), class_names)
        self._table, self._files = labels, found.files
        self._boxes = found.boxes and Packed(found.boxes.json)
        self._stated_sizes = found.boxes and found.boxes.sizes
        if found.keys is not None:
            pairs = zip(found.keys, self._names, strict=True)
            self._keys = Names(own if key is None else key for key, own in pairs)
        self._columns, self._remarks = (
            found.columns,
            tuple(filter(None, [split_remark, *found.remarks])),
        )
        is_for_classes = self._boxes is None and labels.shape == () and not self._files
        count = int((self._labels < 0).sum())
        self.unlabelled = (count, self._columns, "") if is_for_classes else None

    @property
    def label_shape(self) -> LabelShape:
        return self._table.shape

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits, a hash of the files' names and sizes, labels, class names, keys, boxes and columns."""
        parts: list[str | bytes] = [
            f"{_VERSION} {super().fingerprint} {self._table.identity}\n",
            f"{list(self._class_names)}\n",
            "\n".join(() if self._keys is self._names else self._keys),
        ]
        for name, column in (*self._columns.items(), ("json", self._boxes)):
            if column is not None:
                parts += [f"\n{name!r} ", hashlib.sha256(column.identity).digest()]
        return fingerprint_of(*parts, *(f"\n{sorted(files.items())}" for files in self._files))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; ``num_bytes`` asks the file system for the size of every file."""
        found = super().column(name)
        if name == "num_bytes" and self._files:
            return np.full(len(self), -1, np.int64)  # the sizes of further files are unknown
        if name == "num_bytes":
            for column in (*self._columns.values(), self._boxes):
                found = found if column is None else np.where(found < 0, -1, found + column.sizes())
        return found

    def _field(self, name: str) -> str:
        # A file may lack an image extension; the decoder recognises the format by the bytes.
        return super()._field(name) if is_image_file(name) else IMAGE_FIELDS[0]

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where the images of samples lie in files; None if samples have further files, vectors or fields that are read."""
        columns = (*self._columns, *(["json"] if self._boxes is not None else []))
        if self._files or self._table.shape != () or any(map(reads, columns)):
            return None
        return super().locate(indices, reads)

    def _fetch_one(self, index: int, data: Payload | None = None) -> Sample | BadSample:
        entry, key = super()._fetch_one(index, data), self._keys[index]
        if isinstance(entry, BadSample):
            return replace(entry, key=key)
        fields: dict[str, Payload] = dict(entry.fields)
        [image] = fields
        try:
            for name, path in self._files[index].items() if self._files else ():
                fields[name] = read_whole(self._prefix + path)
        except OSError as error:
            reason = f"the file {path} cannot be read: {reason_of(error)}"
            return BadSample(index, key, "read", reason, transient=is_transient(error))
        if self._boxes is not None:
            boxes = bytes(self._boxes[index] or b"")
            fields["json"] = boxes[:-1] + _CORNERS if boxes else boxes
            try:
                for stated in self._stated_sizes[index] if self._stated_sizes else ():
                    require_stated_size(stated, image_size(fields[image]), "its row")
            except ValueError as error:
                return BadSample(index, key, "read", str(error))
        for name, column in self._columns.items():
            value = column[index]
            if value is not None:
                fields.setdefault(name, value)
        return Sample(index, key, fields, self._table[index], image_field=image)
