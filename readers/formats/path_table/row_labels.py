"""Conversion of a table's labels: one class, several classes, shares of classes, or numbers to regress."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from readers.formats.columns import shorten
from readers.formats.path_table.table import Table, TableOptions
from readers.labels.classes import numbering_of
from readers.labels.given_labels import Labels, make_labels
from readers.labels.label_vector import LabelTable
from readers.sample import SourceError


def label_cells(table: Table, column: str, options: TableOptions) -> list[Any]:
    """Return the label of each row as written: a class, or a list of classes or numbers.

    Raises:
        SourceError: The first cell is a JSON list, but another one is not.
    """
    values = table.column(column, "label")
    if options.label_separator is not None:
        return [
            _split(value, options.label_separator) if isinstance(value, str) else value
            for value in values
        ]
    texts = [value.strip() if isinstance(value, str) else value for value in values]
    first = next((value for value in texts if value not in (None, "")), None)
    if not isinstance(first, str) or not first.startswith("["):
        return texts
    advice = 'write one, as in the first row, with text in double quotes, such as ["cat", "dog"]'
    return [table.json_list(row, value, "label", advice) for row, value in enumerate(texts)]


def make_row_labels(
    table: Table,
    column: str,
    cells: Sequence[Any],
    rows: Sequence[Sequence[int]],
    options: TableOptions,
) -> Labels:
    """Return the label of each sample.

    Args:
        table: The rows.
        column: Name of the label column.
        cells: Label of each row, as `label_cells` returns it.
        rows: Row indices of each sample.
        options: Options of the caller about labels.

    Raises:
        SourceError: A label is no class, or of another kind than the others.
    """
    classes = options.classes or table.class_names.get(column)
    several = options.multi_label is True or options.label_separator is not None
    values: list[Any] = [cells[of_one[0]] for of_one in rows]
    if several:
        values = [_union(cells[row] for row in of_one) for of_one in rows]
    elif options.multi_label is None:
        _refuse_unclear(table, rows, values)
    return make_labels(
        values,
        classes,
        lambda number: table.place(rows[number][0]),
        source=f"{table.source}, column {column}",
        several=several,
        num_classes=options.num_classes,
    )


def classes_of_all(table: Table, column: str, options: TableOptions) -> TableOptions:
    """Return the options with `classes` or `num_classes` set by all rows, so that all splits number the classes alike.

    Raises:
        SourceError: Some labels are numbers and others are names.
    """
    if options.classes is not None or column in table.class_names:
        return options
    cells = label_cells(table, column, options)
    every = [one for cell in cells for one in (cell if isinstance(cell, list) else [cell])]
    labels = {one for one in every if isinstance(one, str | int) and one != ""}
    try:
        numbering = numbering_of(labels, None)
        highest = max(map(numbering.number, labels), default=-1)
    except ValueError as error:
        raise SourceError(f"{table.source}, column {column}: {error}") from None
    return replace(options, classes=numbering.names or None, num_classes=highest + 1)


def make_column_labels(table: Table, columns: Sequence[str], rows: Sequence[int]) -> Labels:
    """Return labels that are vectors of the numbers in K columns, float32 [N, K]; the columns' names are the class names.

    Args:
        table: The rows.
        columns: Names of the columns.
        rows: Row index of each sample.

    Raises:
        SourceError: A column is missing or named twice, or a cell holds no number.
    """
    if len(set(columns)) < len(columns) or not columns:
        raise SourceError(f"label={list(columns)} must name at least one column, each once")
    vectors = np.empty((len(rows), len(columns)), np.float32)
    for k, column in enumerate(columns):
        values = table.column(column, "label")
        for number, row in enumerate(rows):
            vectors[number, k] = _number(table, column, row, values[row])
    return Labels(LabelTable(vectors), tuple(columns))


def _number(table: Table, column: str, row: int, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isfinite(number) and abs(number) > float(np.finfo(np.float32).max):
        raise SourceError(
            f"{table.place(row)}: the column {column!r} of the label holds {shorten(value)}, which does not fit float32 (at "
            "most 3.4e38): scale it"
        )
    if not math.isfinite(number):
        what = "is empty" if value in (None, "") else f"holds {shorten(value)}, which is no number"
        raise SourceError(
            f"{table.place(row)}: the column {column!r} of the label {what}: write one, or leave the row out"
        )
    return number


def _split(cell: str, separator: str) -> list[str]:
    parts = cell.split() if separator == " " else cell.split(separator)
    return [part.strip() for part in parts if part.strip()]


def _union(cells: Any) -> list[Any]:
    """Return the classes in the label cells of a sample, each once."""
    every: list[Any] = []
    for cell in cells:
        every += cell if isinstance(cell, list) else [cell] if cell not in (None, "") else []
    return list(dict.fromkeys(every))


def _refuse_unclear(table: Table, rows: Sequence[Sequence[int]], values: Sequence[Any]) -> None:
    """Raise an error for lists of integers that may be either class numbers or the numbers of a vector.

    Raises:
        SourceError: The lists are ambiguous.
    """
    lists = [value for value in values if isinstance(value, list) and value]
    if not lists or not all(type(one) is int for value in lists for one in value):
        return
    if len({*map(len, lists)}) == 1 and {one for value in lists for one in value} <= {0, 1}:
        return
    row = next(of_one[0] for of_one, value in zip(rows, values, strict=True) if value)
    raise SourceError(
        f"{table.place(row)}: the label {shorten(lists[0])} is a list of whole numbers: say multi_label=True where these are "
        "classes, multi_label=False where they are the numbers of a vector"
    )
