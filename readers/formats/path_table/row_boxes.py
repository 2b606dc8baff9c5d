"""Boxes in the rows of a table, as the field json that the loader reads targets from."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from readers.formats.boxes.checks import whole_pixels
from readers.formats.boxes.coords import Coords, Evidence, choose_coords
from readers.formats.columns import shorten
from readers.formats.path_table.roles import usual
from readers.formats.path_table.table import Table
from readers.label_values import make_labels
from readers.sample import SourceError

BoxFormat = Literal["xyxy", "xywh"]

_ABSENT = ("None", "", "0", "0.0", "nan")  # how cells without a number are written; pandas writes nan


class Boxes(NamedTuple):
    """The boxes of samples.

    Attributes:
        json: The field json of each sample.
        class_names: Names of the boxes' classes.
        sizes: Height and width of each sample's image as its rows state them, 0 where they do not; empty without such columns.
        remarks: Sentences for people.
    """

    json: list[bytes]
    class_names: tuple[str, ...]
    sizes: list[tuple[int, int]]
    remarks: list[str]


class BoxColumns(NamedTuple):
    """Where boxes stand.

    Attributes:
        boxes: Four columns of numbers, a box in each row; or one column of JSON: a box, or a list of boxes.
        labels: The column of their classes: a class in each row, or a JSON list where boxes are lists; or None.
        form: What the four numbers are, in pixels: left, top, right, bottom, or left, top, width, height.
        coords: From where corners count; None lets the boxes tell it.
    """

    boxes: str | Sequence[str]
    labels: str | None
    form: BoxFormat
    coords: Coords | None


def make_boxes(
    table: Table,
    columns: BoxColumns,
    rows: Sequence[Sequence[int]],
    classes: tuple[str, ...] | None,
) -> Boxes:
    """Return the boxes of samples.

    Args:
        table: The rows.
        columns: Where boxes stand.
        rows: The rows of each sample.
        classes: Names of classes; None numbers names in sorted order.

    Raises:
        SourceError: A box has not four numbers, or no area, or there are more or fewer labels than boxes.
    """
    if columns.form not in get_args(BoxFormat):
        raise SourceError(f'box_format={columns.form!r} is not known: give "xyxy" or "xywh"')
    if columns.coords not in (None, *get_args(Coords)):
        raise SourceError(
            f'coords={columns.coords!r} is not known: give "one-based" or "zero-based"'
        )
    sizes, remarks = _sizes(table, columns), list[str]()
    if isinstance(columns.boxes, str):
        by_row = _from_json(table, columns)
    else:
        by_row = _from_columns(table, columns, sizes, remarks)
    labels: list[list[Any]] = [[] for _ in range(len(table))]
    names: tuple[str, ...] = ()
    if columns.labels is not None:
        labels, names = _labels(table, columns.labels, by_row, classes)
    found = []
    for of_one in rows if sizes else ():
        other = next((row for row in of_one if sizes[row] != sizes[of_one[0]]), None)
        if other is not None:
            raise SourceError(
                f"{table.source}, {table.where([of_one[0], other])} state two sizes of one image: correct one of them"
            )
    for of_one in rows:
        told: dict[str, Any] = {"boxes": [box for row in of_one for box in by_row[row]]}
        if columns.labels is not None:
            told["labels"] = [label for row in of_one for label in labels[row]]
        found.append(json.dumps(told, separators=(",", ":")).encode())
    return Boxes(found, names, [sizes[of_one[0]] for of_one in rows] if sizes else [], remarks)


def _sizes(table: Table, columns: BoxColumns) -> list[tuple[int, int]]:
    """Return height and width that each row states for its image, none where no columns are called so."""
    names = [usual(table.columns, (name,)) for name in ("height", "width")]
    if None in names or {*names} & {*columns.boxes}:  # they are those of boxes
        return []
    found = []
    for row, stated in enumerate(zip(*(table.columns[str(name)] for name in names), strict=True)):
        height, width = map(whole_pixels, stated)
        for length, one in ((height, stated[0]), (width, stated[1])):
            if not length and str(one) not in _ABSENT:
                raise SourceError(
                    f"{table.place(row)}: {shorten(one)} is no width or height of an image in pixels: correct it, or rename the "
                    "column"
                )
        found.append((height, width))
    return found


def _from_columns(
    table: Table, columns: BoxColumns, sizes: Sequence[tuple[int, int]], remarks: list[str]
) -> list[list[list[float]]]:
    if len(columns.boxes) != 4:
        raise SourceError(
            f"boxes={list(columns.boxes)} must be one column of JSON or four columns, in the order of box_format={columns.form!r}"
        )
    values = [table.column(name, "boxes") for name in columns.boxes]
    rows = {
        row: _numbers(table, row, cells)
        for row, cells in enumerate(zip(*values, strict=True))
        if any(cell not in (None, "") for cell in cells)
    }
    coords = columns.coords
    if coords is None and columns.form == "xyxy":
        coords, remark = _coords(table, rows, sizes)
        remarks += [remark] if remark else []
    first = 1 if coords == "one-based" else 0
    return [
        [_box(table, row, rows[row], columns.form, first)] if row in rows else []
        for row in range(len(table))
    ]


def _coords(
    table: Table, rows: Mapping[int, Sequence[float]], sizes: Sequence[tuple[int, int]]
) -> tuple[Coords, str]:
    """Tell from where the corners in rows count; parts of pixels count from 0."""
    if any(not value.is_integer() for box in rows.values() for value in box):
        return "zero-based", ""
    evidence = Evidence()
    for row, box in rows.items():
        evidence.add(box, sizes[row] if sizes else None, table.where([row]))
    return choose_coords(evidence, table.source, "zero-based")


def _from_json(table: Table, columns: BoxColumns) -> list[list[list[float]]]:
    assert isinstance(columns.boxes, str)
    found = []
    for row, value in enumerate(table.column(columns.boxes, "boxes")):
        boxes = _parsed(table, row, value, "boxes")
        if boxes and not isinstance(boxes[0], list):
            boxes = [boxes]
        numbers = [_numbers(table, row, box) for box in boxes]
        first = 1 if columns.coords == "one-based" else 0
        found.append([_box(table, row, box, columns.form, first) for box in numbers])
    return found


def _parsed(table: Table, row: int, value: Any, what: str) -> list[Any]:
    if value in (None, ""):
        return []
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list):
        raise SourceError(
            f"{table.place(row)}: the {what} {shorten(value)} are no JSON list: write [[left, top, right, bottom], ...]"
        )
    return found


def _numbers(table: Table, row: int, cells: Any) -> list[float]:
    try:
        left, top, third, fourth = (float(cell) for cell in cells)
    except (TypeError, ValueError):
        raise SourceError(
            f"{table.place(row)}: the box {shorten(list(cells) if isinstance(cells, tuple) else cells)} must be four numbers"
        ) from None
    return [left, top, third, fourth]


def _box(
    table: Table, row: int, numbers: Sequence[float], form: BoxFormat, first: int
) -> list[float]:
    """Return left, top, right, bottom from 0, of corners that count from `first` and include both ends where that is 1."""
    left, top, third, fourth = numbers
    left, top = left - first, top - first
    box = [left, top, third, fourth] if form == "xyxy" else [left, top, left + third, top + fourth]
    if not all(map(math.isfinite, numbers)) or box[2] <= box[0] or box[3] <= box[1]:
        other = (
            '; say box_format="xywh" where they are left, top, width, height'
            if form == "xyxy"
            else ""
        )
        raise SourceError(f"{table.place(row)}: the box {list(numbers)} ({form}) has no area{other}")
    return box


def _labels(
    table: Table,
    column: str,
    boxes: Sequence[Sequence[Any]],
    classes: tuple[str, ...] | None,
) -> tuple[list[list[int]], tuple[str, ...]]:
    """Return the class numbers of each row's boxes, and the names of the classes."""
    values = table.column(column, "box_labels")
    flat: list[Any] = []
    places: list[int] = []
    for row, value in enumerate(values):
        one = value.strip() if isinstance(value, str) else value
        is_list = isinstance(one, list) or (isinstance(one, str) and one.startswith("["))
        labels = [one] if boxes[row] else []
        if is_list:
            labels = _parsed(table, row, one, "labels")
        if len(labels) != len(boxes[row]):
            raise SourceError(
                f"{table.place(row)}: there are {len(labels)} labels for {len(boxes[row])} boxes: give one for each"
            )
        flat += labels
        places += [row] * len(labels)
    made = make_labels(
        flat,
        classes or table.class_names.get(column),
        lambda number: table.place(places[number]),
        source=f"{table.source}, column {column}",
    )
    if made.table.shape != ():
        raise SourceError(f"{table.source}, column {column}: the label of a box must be one class")
    numbers = iter(made.table.class_numbers().tolist())
    return [[next(numbers) for _ in of_row] for of_row in boxes], made.class_names
