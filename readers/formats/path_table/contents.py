"""Conversion of a table's rows to the files, labels, keys and fields of samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from readers.formats.columns import to_key, to_payload
from readers.formats.files.packed import Packed
from readers.formats.path_table.image_files import find_image_files
from readers.formats.path_table.metadata_folder import (
    about_files,
    about_objects,
    further_files,
    image_column,
    names_files,
    with_first_files,
)
from readers.formats.path_table.roles import (
    KEY_NAMES,
    about_boxes,
    find_column,
    find_image,
    find_label,
    joined,
    remark,
    repeated,
    rows_by_image,
)
from readers.formats.path_table.row_boxes import Boxes, make_boxes
from readers.formats.path_table.row_labels import (
    classes_of_all,
    label_cells,
    make_column_labels,
    make_row_labels,
)
from readers.formats.path_table.table import Table, TableOptions
from readers.labels.given_labels import Labels
from readers.labels.label_vector import LabelTable
from readers.plural import counted
from readers.sample import SourceError


@dataclass
class Contents:
    """The samples that a table describes.

    Attributes:
        names: Path of each sample's image, absolute or relative to the folder.
        labels: Labels of the samples, and class names.
        keys: Key of each sample, None for a sample whose key is its path; None if the table has no column of keys.
        columns: Values of the columns that become fields, by name, one value per sample.
        boxes: Boxes of the samples, None if the table has no boxes.
        files: For each sample, the paths of its further files by field name; empty if no column names further files.
        remarks: Warnings for the user.
    """

    names: list[str]
    labels: Labels
    keys: list[str | None] | None = None
    columns: dict[str, Packed] = field(default_factory=dict)
    boxes: Boxes | None = None
    files: list[dict[str, str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_contents(
    whole: Table, table: Table, folder: Path, options: TableOptions, *, is_metadata: bool
) -> Contents:
    """Return the samples that the rows of one split of a table describe.

    Args:
        whole: All rows of the table, by which classes are numbered.
        table: The rows of the split.
        folder: Folder that paths are relative to.
        options: Options of the caller about the columns.
        is_metadata: Whether the rules of Hugging Face's ImageFolder apply.

    Raises:
        SourceError: A column is missing, or a row is invalid.
    """
    remarks: list[str] = []
    image = _image(table, options.image, remarks, is_metadata=is_metadata)
    paths = with_first_files(table, image) if is_metadata else table
    names = find_image_files(paths, image, folder, strict=is_metadata)
    label = _label(table, options, image, remarks)
    if options.boxes is None:
        remarks += about_boxes(table)
    if isinstance(label, str) and len(table) < len(whole):
        options = classes_of_all(whole, label, options)
    grouped = options.boxes is not None or options.multi_label is True
    rows = rows_by_image(names) if grouped else [[row] for row in range(len(table))]
    labels, boxes = _labels(table, names, label, rows, options, remarks)
    firsts = [of_one[0] for of_one in rows]
    found = Contents([names[row] for row in firsts], labels, boxes=boxes, remarks=remarks)
    if is_metadata:
        remarks += about_objects(table) if options.boxes is None else ()
        found.files = further_files(table, image, firsts)
        others = (path for files in found.files for path in files.values())
        remarks += about_files(folder, table.source, [*names, *others])
    _add_keys(found, table, find_column(table, options.key, "key", KEY_NAMES), firsts)
    found.columns = {
        name: Packed(_payload(joined([values[row] for row in of_one])) for of_one in rows)
        for name, values in table.columns.items()
        if name != image and not (is_metadata and names_files(name))
    }
    return found


def _image(table: Table, asked: str | None, remarks: list[str], *, is_metadata: bool) -> str:
    if is_metadata:
        return image_column(table)
    image, others = find_image(table, asked)
    remarks += remark(table, "image", image, others)
    return image


def _label(
    table: Table, options: TableOptions, image: str, remarks: list[str]
) -> str | Sequence[str] | None:
    """Return the name of the label column, the names of several columns that make up a vector, or None without labels."""
    if options.label is not None:
        return options.label
    label, others = find_label(table, [image])
    if label is not None:
        remarks += remark(table, "label", label, others)
    elif {options.classes, options.label_separator, options.multi_label} != {None}:
        raise SourceError(
            f"{table.source} has no column of a usual name for labels, which classes=, label_separator= or multi_label= is "
            f"given for (its columns are {', '.join(table.columns)}): name it with label="
        )
    return label


def _labels(
    table: Table,
    names: Sequence[str],
    label: str | Sequence[str] | None,
    rows: list[list[int]],
    options: TableOptions,
    remarks: list[str],
) -> tuple[Labels, Boxes | None]:
    """Return the label of each sample, and the boxes of the samples, None if the table has no boxes."""
    if options.boxes is not None:
        if not isinstance(label, str | None):
            raise SourceError(
                f"label={list(label)} and boxes= do not go together: name the one column of the boxes' classes"
            )
        boxes = make_boxes(table, label, rows, options)
        remarks += [boxes.remark] if boxes.remark else []
        return Labels(_none(len(rows)), boxes.class_names), boxes
    cells = label_cells(table, label, options) if isinstance(label, str) else None
    if not options.multi_label:
        remarks += repeated(table, names, cells)
    if label is None:
        return Labels(_none(len(rows)), ()), None
    if cells is None or not isinstance(label, str):
        return make_column_labels(table, label, [of_one[0] for of_one in rows]), None
    return make_row_labels(table, label, cells, rows, options), None


def _none(count: int) -> LabelTable:
    return LabelTable(np.full(count, -1, np.int64))


def _add_keys(found: Contents, table: Table, column: str | None, firsts: Sequence[int]) -> None:
    """Set the keys of samples from a column, and add a warning if several samples have the same key."""
    if column is None:
        return
    values = table.columns[column]
    found.keys = [None if values[row] in (None, "") else to_key(values[row]) for row in firsts]
    first: dict[str, int] = {}
    for row, key in zip(firsts, found.keys, strict=True):
        if key is not None and first.setdefault(key, row) != row:
            there = [one for one in found.keys if one is not None]
            count = len(there) - len({*there})
            found.remarks.append(
                f"{table.source}: {count} of {counted(len(there), 'sample')} have the key of another in the column "
                f"{column} ({key}, {table.where([first[key], row])}), so that labels and bad samples by key are unclear: name "
                "another column with key="
            )
            return


def _payload(value: Any) -> bytes | None:
    """Return a column's value as the content of a field; None stays None."""
    if value is None:
        return None
    try:
        return bytes(to_payload(value))
    except TypeError:  # times, decimals
        return str(value).encode("utf-8", "surrogateescape")
