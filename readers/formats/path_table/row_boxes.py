"""Conversion of boxes in the rows of a table to the field json, from which the loader reads targets."""

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

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
from readers.formats.path_table.table import BoxFormat, Table, TableOptions
from readers.labels.given_labels import make_labels
from readers.plural import counted
from readers.sample import SourceError


class Boxes(NamedTuple):
    """The boxes of all samples.

    Attributes:
        json: Content of the field json of each sample.
        class_names: Names of the boxes' classes, by class number.
        sizes: For each sample, the set of (height, width) that its rows state for the image; empty without such columns.
        remark: Warning for the user, "" if there is none.
    """

    json: list[bytes]
    class_names: tuple[str, ...]
    sizes: list[set[tuple[int, int]]]
    remark: str


def make_boxes(
    table: Table, label: str | None, rows: Sequence[Sequence[int]], options: TableOptions
) -> Boxes:
    """Return the boxes of all samples.

    Args:
        table: The rows.
        label: Column of the classes: a class in each row, or a JSON list if boxes are lists; None without classes.
        rows: The rows of each sample.
        options: Options of the caller: the columns of boxes, their format and origin.

    Raises:
        SourceError: A box does not have four numbers, or no area; or a row has more or fewer labels than boxes.
    """
    require_choice("box_format", options.box_format, get_args(BoxFormat))
    require_choice("coords", options.coords, (None, *get_args(Coords)))
    assert options.boxes is not None
    if isinstance(options.boxes, str):
        numbers = _from_json(table, options.boxes)
    else:
        numbers = _from_columns(table, options.boxes, options.box_format)
    sizes = _sizes(table, options.boxes)
    coords, remark = _coords(table, options, numbers, sizes)
    first = 1 if coords == "one-based" else 0
    by_row = [
        [_box(table, row, one, options.box_format, first) for one in of_row]
        for row, of_row in enumerate(numbers)
    ]
    labels: list[list[Any]] = [[] for _ in range(len(table))]
    names: tuple[str, ...] = ()
    if label is not None:
        labels, names = _labels(table, label, by_row, options.classes)
        if count := sum(number < 0 for of_row in labels for number in of_row):
            all_boxes = counted(sum(map(len, labels)), "box")
            remark = f"{table.source}: {count:,} of {all_boxes} have no class (class -1); {remark or 'write one for each'}"
    found = []
    for of_one in rows:
        targets: dict[str, Any] = {"boxes": [box for row in of_one for box in by_row[row]]}
        if label is not None:
            targets["labels"] = [number for row in of_one for number in labels[row]]
        found.append(json.dumps(targets, separators=(",", ":")).encode())
    of_samples = [{sizes[row] for row in of_one} for of_one in rows] if sizes else []
    return Boxes(found, names, of_samples, remark)


def _sizes(table: Table, boxes: str | Sequence[str]) -> list[tuple[int, int]]:
    """Return (height, width) that each row states for its image, 0 for a missing value; empty without such columns."""
    height, width = (usual(table.columns, (name,)) for name in ("height", "width"))
    if (
        height is None or width is None or {height, width} & {*boxes}
    ):  # columns of boxes, not of images
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
    options: TableOptions,
    numbers: Sequence[Sequence[list[float]]],
    sizes: Sequence[tuple[int, int]],
) -> tuple[Coords, str]:
    """Return whether coordinates count from 0 or from 1, and a warning, "" if there is no doubt.

    Boxes with fractional coordinates count from 0.
    """
    is_sure = options.coords is not None or isinstance(options.boxes, str)
    whole = all(value.is_integer() for of_row in numbers for box in of_row for value in box)
    if is_sure or options.box_format != "xyxy" or not whole:
        return options.coords or "zero-based", ""
    found = [
        Corners(box, sizes[row] if sizes else None, table.where([row]))
        for row, of_row in enumerate(numbers)
        for box in of_row
    ]
    return choose_coords(found, table.source, "zero-based")


def _from_columns(table: Table, columns: Sequence[str], form: BoxFormat) -> list[list[list[float]]]:
    if len(columns) != 4:
        raise SourceError(
            f"boxes={list(columns)} must be one column of JSON or four columns, in the order of box_format={form!r}"
        )
    values = [table.column(name, "boxes") for name in columns]
    found = []
    for row, cells in enumerate(zip(*values, strict=True)):
        there = [cell not in (None, "") for cell in cells]
        found.append([_numbers(table, row, cells)] if any(there) else [])
    return found


def _from_json(table: Table, column: str) -> list[list[list[float]]]:
    found = []
    for row, value in enumerate(table.column(column, "boxes")):
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
    """Convert the four numbers of a box to left, top, right, bottom in pixels that count from 0.

    Args:
        table: The rows, for errors.
        row: Index of the row, for errors.
        numbers: The four numbers.
        form: Format of the box.
        first: Coordinate of the first pixel; if 1, the corners include both ends.
    """
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
    """Return the class numbers of each row's boxes, and the class names."""
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
