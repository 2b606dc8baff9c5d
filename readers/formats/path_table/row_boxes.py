"""Boxes in the rows of a table, as the field json that the loader reads targets from."""

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from readers.formats.boxes.checks import (
    Coords,
    Corners,
    choose_coords,
    read_each,
    require_choice,
    stated_length,
)
from readers.formats.columns import shorten
from readers.formats.path_table.roles import usual
from readers.formats.path_table.table import Table
from readers.labels.given_labels import make_labels
from readers.plural import counted
from readers.sample import SourceError

BoxFormat = Literal["xyxy", "xywh"]


class Boxes(NamedTuple):
    """The boxes of samples.

    Attributes:
        json: The field json of each sample.
        class_names: Names of the boxes' classes.
        sizes: Height and width of each sample's image as its rows state them; empty without such columns.
        remark: A sentence for people, or "".
    """

    json: list[bytes]
    class_names: tuple[str, ...]
    sizes: list[set[tuple[int, int]]]
    remark: str


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
    require_choice("box_format", columns.form, get_args(BoxFormat))
    require_choice("coords", columns.coords, (None, *get_args(Coords)))
    numbers = (
        _from_columns(table, columns)
        if not isinstance(columns.boxes, str)
        else _from_json(table, columns)
    )
    sizes = _sizes(table, columns)
    coords, remark = _coords(table, columns, numbers, sizes)
    first = 1 if coords == "one-based" else 0
    by_row = [
        [_box(table, row, one, columns.form, first) for one in of_row]
        for row, of_row in enumerate(numbers)
    ]
    labels: list[list[Any]] = [[] for _ in range(len(table))]
    names: tuple[str, ...] = ()
    if columns.labels is not None:
        labels, names = _labels(table, columns.labels, by_row, classes)
        if count := sum(number < 0 for of_row in labels for number in of_row):
            all_boxes = counted(sum(map(len, labels)), "box")
            remark = f"{table.source}: {count:,} of {all_boxes} have no class (class -1); {remark or 'write one for each'}"
    found = []
    for of_one in rows:
        told: dict[str, Any] = {"boxes": [box for row in of_one for box in by_row[row]]}
        if columns.labels is not None:
            told["labels"] = [label for row in of_one for label in labels[row]]
        found.append(json.dumps(told, separators=(",", ":")).encode())
    of_samples = [{sizes[row] for row in of_one} for of_one in rows] if sizes else []
    return Boxes(found, names, of_samples, remark)


def _sizes(table: Table, columns: BoxColumns) -> list[tuple[int, int]]:
    """Return height and width that each row states for its image, 0 for neither; none where no columns are called so."""
    height, width = (usual(table.columns, (name,)) for name in ("height", "width"))
    if height is None or width is None or {height, width} & {*columns.boxes}:  # those are of boxes
        return []
    stated = zip(table.columns[height], table.columns[width], strict=True)
    try:
        return read_each(
            stated,
            lambda pair: (stated_length(pair[0], height), stated_length(pair[1], width)),
            lambda row, _: table.place(row),
        )
    except ValueError as error:
        raise SourceError(f"{error}: correct it, or rename the column") from None


def _coords(
    table: Table,
    columns: BoxColumns,
    numbers: Sequence[Sequence[list[float]]],
    sizes: Sequence[tuple[int, int]],
) -> tuple[Coords, str]:
    """Tell from where corners count, and what is to be said of it; parts of pixels count from 0."""
    is_sure = columns.coords is not None or isinstance(columns.boxes, str)
    whole = all(value.is_integer() for of_row in numbers for box in of_row for value in box)
    if is_sure or columns.form != "xyxy" or not whole:
        return columns.coords or "zero-based", ""
    found = [
        Corners(box, sizes[row] if sizes else None, table.where([row]))
        for row, of_row in enumerate(numbers)
        for box in of_row
    ]
    return choose_coords(found, table.source, "zero-based")


def _from_columns(table: Table, columns: BoxColumns) -> list[list[list[float]]]:
    if len(columns.boxes) != 4:
        raise SourceError(
            f"boxes={list(columns.boxes)} must be one column of JSON or four columns, in the order of box_format={columns.form!r}"
        )
    values = [table.column(name, "boxes") for name in columns.boxes]
    found = []
    for row, cells in enumerate(zip(*values, strict=True)):
        there = [cell not in (None, "") for cell in cells]
        found.append([_numbers(table, row, cells)] if any(there) else [])
    return found


def _from_json(table: Table, columns: BoxColumns) -> list[list[list[float]]]:
    assert isinstance(columns.boxes, str)
    found = []
    for row, value in enumerate(table.column(columns.boxes, "boxes")):
        boxes = table.json_list(
            row, value, "cell of boxes", "write [[left, top, right, bottom], ...]"
        )
        if boxes and not isinstance(boxes[0], list):
            boxes = [boxes]
        found.append([_numbers(table, row, box) for box in boxes])
    return found


def _numbers(table: Table, row: int, cells: Any) -> list[float]:
    try:
        left, top, third, fourth = [float(cell) for cell in cells]
    except (TypeError, ValueError):
        raise SourceError(
            f"{table.place(row)}: the box {shorten(list(cells) if isinstance(cells, tuple) else cells)} must be four numbers"
        ) from None
    return [left, top, third, fourth]


def _box(
    table: Table, row: int, numbers: Sequence[float], form: BoxFormat, first: int
) -> list[float]:
    """Return left, top, right, bottom from 0, of corners that count from `first` and include both ends where that is 1."""
    left, top, third, fourth = numbers[0] - first, numbers[1] - first, *numbers[2:]
    box = [left, top, third, fourth] if form == "xyxy" else [left, top, left + third, top + fourth]
    is_finite = all(map(math.isfinite, numbers))
    if not is_finite or box[2] <= box[0] or box[3] <= box[1]:
        other = (
            '; say box_format="xywh" where they are left, top, width, height'
            if form == "xyxy"
            else ""
        )
        raise SourceError(
            f"{table.place(row)}: the box {numbers} ({form}) "
            + (f"has no area{other}" if is_finite else "has a number that is not finite")
        )
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
            labels = table.json_list(row, one, "cell of labels", "write a label for each box")
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
