"""Image files that the rows of a CSV, TSV, Parquet or Arrow file name."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.classes import Classes, read_classes
from readers.formats.columns import to_key, to_payload
from readers.formats.files import FileDataset, read_whole
from readers.formats.folder import find_root
from readers.formats.path_table.arrow_rows import ARROW_SUFFIXES, read_arrow
from readers.formats.path_table.grouping import joined, repeated, rows_by_image
from readers.formats.path_table.image_files import find_image_files
from readers.formats.path_table.metadata_folder import (
    METADATA_NAMES,
    about_files,
    further_files,
    image_column,
    names_files,
    read_json_lines,
    with_first_files,
)
from readers.formats.path_table.packed import Packed
from readers.formats.path_table.roles import find_image, find_key, find_label, remark
from readers.formats.path_table.row_boxes import BoxColumns, BoxFormat, make_boxes
from readers.formats.path_table.row_labels import (
    LabelOptions,
    classes_of_all,
    label_cells,
    make_column_labels,
    make_row_labels,
)
from readers.formats.path_table.split_rows import choose_rows
from readers.formats.path_table.table import Table
from readers.formats.path_table.text_rows import read_text
from readers.label_table import LabelTable
from readers.label_values import Labels
from readers.label_vector import LabelShape
from readers.plural import counted
from readers.sample import (
    IMAGE_FIELDS,
    BadSample,
    ColumnName,
    PathLike,
    Payload,
    Sample,
    SourceError,
    is_image_file,
)
from readers.storage.unreadable import reason_of

_VERSION = "path table 1"


class PathTableDataset(FileDataset):
    """Image files that the rows of a table name, a sample for each row, or for each image.

    A text file is UTF-8 with the names of its columns in the first row, and is read as text: "0007" keeps its zeros and
    "NA" is a name like others. Every column but that of the paths becomes a field, text as UTF-8, all else as JSON.
    Paths are relative to the table's folder, or absolute; a name without extension stands for the one image file of that
    name. That a file is missing is found out when it is fetched.

    A file called metadata.csv, .jsonl or .parquet follows the rules of Hugging Face's ImageFolder: ``file_name`` names the
    image, ``NAME_file_name`` and ``NAME_file_names`` name further files of the sample (``mask_file_name`` its mask), and
    no path may leave its folder.

    Rows of one image are one sample where they hold a box each, or with ``multi_label=True``; a column that says different
    things of it is then a JSON list.

    Args:
        path: The table; ``.parquet`` and ``.arrow`` are read by pyarrow, all else as text.
        image: Column of the paths; None looks for the usual names, then for the column that holds names of image files.
        label: Column of the class, by name or number; of a JSON list, the classes or the numbers of a vector. A list of
            columns: their numbers are a vector (several classes, shares of classes, numbers to regress), float32 [K].
            None looks for the usual names.
        key: Column that names samples: ``__key__``, ``key`` or ``id`` where they are there, else the path does.
        classes: Names of the classes in the order of their numbers, or a file of them, one per line. None: labels that
            are whole numbers are class numbers, all others are names, numbered in sorted order.
        label_separator: What stands between the classes of a sample in one cell, such as ``" "``; labels are then
            multi-hot vectors, float32 [K], 0 throughout where a cell is empty.
        multi_label: True: labels are multi-hot vectors; the rows of an image are joined, and numbers in lists are class
            numbers. False: lists of whole numbers are vectors.
        boxes: Four columns of numbers, a box in each row, or a column of JSON, a box or a list of them. They become the
            field ``json``, in pixels of the upright image, and ``label`` is the class of each box.
        box_format: "xyxy": left, top, right, bottom; "xywh": left, top, width, height.
        split: Which rows to take, of those whose split differs.
        split_column: Column of the split; None looks for ``split``.
        root: Folder that paths are relative to; None is the table's.
        delimiter: What stands between cells; None finds it among comma, semicolon and tab.
        header: Names of the columns of a text file without a row of them.

    Raises:
        SourceError: The table cannot be read, has no such column, holds several splits, or a row is wrong; the text names
            file, line and value.

    Example:
        >>> table = PathTableDataset("photos.csv", split="train")
        >>> table.class_names, [sample.label for sample in table.fetch([0, 3])]
        (('cat', 'dog'), [0, 1])
    """

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
        split: str | None = None,
        split_column: str | None = None,
        root: PathLike | None = None,
        delimiter: str | None = None,
        header: Sequence[str] | None = None,
    ) -> None:
        path = Path(path).absolute()
        table = _read(path, delimiter, header)
        self._is_metadata = path.name in METADATA_NAMES and root is None and image is None
        folder = path.parent if root is None else Path(root).absolute()
        options = LabelOptions(read_classes(classes), label_separator, multi_label)
        columns = _Columns(image, label, key, None if boxes is None else (boxes, box_format))
        self._fill(
            table, choose_rows(table, split, split_column, path.name), folder, columns, options
        )

    def _fill(
        self, whole: Table, table: Table, folder: Path, columns: "_Columns", options: LabelOptions
    ) -> None:
        """Decide what the rows of a table, or of one of its splits, mean, and keep it."""
        image, other_images = self._image_of(table, columns.image)
        further = further_files if self._is_metadata else _no_files
        table_of_paths = with_first_files(table, image) if self._is_metadata else table
        names = find_image_files(table_of_paths, image, folder, strict=self._is_metadata)
        label, other_labels = columns.label, list[str]()
        if label is None:
            label, other_labels = find_label(table, [image])
        if isinstance(label, str) and len(table) < len(whole):
            options = classes_of_all(whole, label, options)
        key = find_key(table, columns.key)
        rows = [[row] for row in range(len(table))]
        if columns.boxes is not None or options.multi_label:
            rows = rows_by_image(names)
        self._remarks = remark(table, "image", image, other_images)
        if isinstance(label, str):
            self._remarks += remark(table, "label", label, other_labels)
        found, self._boxes = self._labels_of(table, names, label, rows, columns, options)
        self._table = found.table
        firsts = [of_one[0] for of_one in rows]
        self._files = further(table, image, firsts)
        if self._is_metadata:
            others = (path for files in self._files for path in files.values())
            self._remarks += about_files(folder, table.source, [*names, *others])
        root, names = find_root(folder, [names[row] for row in firsts])
        super().__init__(root, names, found.table.class_numbers().tolist(), found.class_names)
        self._keys = None if key is None else _keys_of(table.columns[key], firsts, names)
        self._columns = {
            name: Packed(_payload(joined([values[row] for row in of_one])) for of_one in rows)
            for name, values in table.columns.items()
            if name != image and not (self._is_metadata and names_files(name))
        }
        self._remarks += _about_keys(table, key, self.keys(), firsts) if self._keys else []

    def _image_of(self, table: Table, asked: str | None) -> tuple[str, list[str]]:
        return (image_column(table), []) if self._is_metadata else find_image(table, asked)

    def _labels_of(
        self,
        table: Table,
        names: Sequence[str],
        label: str | Sequence[str] | None,
        rows: list[list[int]],
        columns: "_Columns",
        options: LabelOptions,
    ) -> tuple[Labels, Packed | None]:
        if columns.boxes is not None:
            if not isinstance(label, str | None):
                raise SourceError(
                    f"label={list(label)} and boxes= do not go together: name the one column of the boxes' classes"
                )
            found = make_boxes(
                table, BoxColumns(columns.boxes[0], label, columns.boxes[1]), rows, options.classes
            )
            nothing = LabelTable(np.full(len(rows), -1, np.int64))
            return Labels(nothing, found.class_names), Packed(found.json)
        if label is None:
            self._remarks += repeated(table, names, None) if not options.multi_label else []
            return Labels(LabelTable(np.full(len(rows), -1, np.int64)), options.classes or ()), None
        if not isinstance(label, str):
            self._remarks += repeated(table, names, None)
            return make_column_labels(table, label, [of_one[0] for of_one in rows]), None
        cells = label_cells(table, label, options)
        if not options.multi_label:
            self._remarks += repeated(table, names, cells)
        made = make_row_labels(table, label, cells, rows, options)
        if made.num_unlabelled:
            self._remarks.append(_about_unlabelled(table, label, made, rows))
        return made, None

    @property
    def remarks(self) -> tuple[str, ...]:
        """See `IndexedDataset.remarks`."""
        return tuple(self._remarks)

    @property
    def label_shape(self) -> LabelShape:
        """See `IndexedDataset.label_shape`."""
        return self._table.shape

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over names and sizes of the files, labels and names of classes, keys, boxes and columns."""
        digest = hashlib.sha256(
            f"{_VERSION} {super().fingerprint} {self._table.identity}\n".encode()
        )
        digest.update(f"{list(self._class_names)}\n".encode("utf-8", "surrogateescape"))
        digest.update("\n".join(self._keys or ()).encode("utf-8", "surrogateescape"))
        for name, column in (*self._columns.items(), ("json", self._boxes)):
            if column is not None:
                digest.update(f"\n{name!r} ".encode("utf-8", "surrogateescape"))
                digest.update(hashlib.sha256(column.identity).digest())
        for files in self._files:
            digest.update(f"\n{sorted(files.items())}".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`; for ``num_bytes`` every file is asked for its size."""
        found = super().column(name)
        if name == "num_bytes":
            for column in (*self._columns.values(), self._boxes):
                found = found if column is None else np.where(found < 0, -1, found + column.sizes())
        return found

    def _key(self, index: int) -> str:
        return super()._key(index) if self._keys is None else self._keys[index]

    def _field(self, name: str) -> str:
        # A file without an image extension: the bytes decide what it is.
        return super()._field(name) if is_image_file(name) else IMAGE_FIELDS[0]

    def _fetch_one(self, index: int) -> Sample | BadSample:
        entry, key = super()._fetch_one(index), self._key(index)
        if isinstance(entry, BadSample):
            return BadSample(index, key, entry.stage, entry.reason)
        fields: dict[str, Payload] = dict(entry.fields)
        [image] = fields
        try:
            for name, path in self._files[index].items() if self._files else ():
                fields[name] = read_whole(self._prefix + path)
        except OSError as error:
            reason = f"the file {path} cannot be read: {reason_of(error)}"
            return BadSample(index, key, "read", reason)
        if self._boxes is not None:
            fields["json"] = self._boxes[index] or b""
        for name, column in self._columns.items():
            value = column[index]
            if value is not None:
                fields.setdefault(name, value)
        return Sample(index, key, fields, self._table[index], image_field=image)


def _read(path: Path, delimiter: str | None, header: Sequence[str] | None) -> Table:
    if path.suffix.lower() in ARROW_SUFFIXES:
        return read_arrow(path)
    return read_json_lines(path) if path.suffix == ".jsonl" else read_text(path, delimiter, header)


def _no_files(table: Table, image: str, firsts: Sequence[int]) -> list[dict[str, str]]:
    del table, image, firsts
    return []


class _Columns:
    """The columns that a caller named."""

    def __init__(
        self,
        image: str | None,
        label: str | Sequence[str] | None,
        key: str | None,
        boxes: tuple[str | Sequence[str], BoxFormat] | None,
    ) -> None:
        self.image, self.label, self.key, self.boxes = image, label, key, boxes


def _payload(value: Any) -> bytes | None:
    """A value as the bytes of a field, None where there is none."""
    if value is None:
        return None
    try:
        return bytes(to_payload(value))
    except TypeError:  # times, decimals
        return str(value).encode("utf-8", "surrogateescape")


def _keys_of(values: Sequence[Any], rows: Sequence[int], names: Sequence[str]) -> list[str]:
    return [
        name if values[row] in (None, "") else to_key(values[row])
        for row, name in zip(rows, names, strict=True)
    ]


def _about_keys(
    table: Table, column: str | None, keys: Sequence[str], rows: Sequence[int]
) -> list[str]:
    """Sentences about keys that several samples have."""
    firsts: dict[str, int] = {}
    for row, key in zip(rows, keys, strict=True):
        if firsts.setdefault(key, row) != row:
            where = table.where([firsts[key], row])
            return [
                f"{table.source}: {counted(len(keys) - len(set(keys)), 'sample')} have a key of another in the column {column} "
                f"({key}, {where}), so that labels and bad samples by key are unclear: name another column with key="
            ]
    return []


def _about_unlabelled(table: Table, label: str, made: Labels, rows: Sequence[Sequence[int]]) -> str:
    first = int(np.argmax(made.table.class_numbers() < 0))
    return (
        f"{table.source}: {made.num_unlabelled} of {counted(len(rows), 'sample')} without a label in the column {label} (first "
        f"{table.where(rows[first][:1])}) get the label -1: leave them out with where('label >= 0'), or label them"
    )
