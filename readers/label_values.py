"""Labels as people give them (numbers, names, lists of them, arrays) to the labels of a dataset."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from readers.classes import Numbering, numbering_of
from readers.formats.columns import shorten
from readers.label_table import LabelTable
from readers.sample import SourceError


class Labels(NamedTuple):
    """The labels of a dataset, and the names of its classes."""

    table: LabelTable
    class_names: tuple[str, ...]


Place = Callable[[int], str]
"""Says where a label stands, by its number: "train.csv, line 8"."""


def make_labels(
    values: Sequence[Any],
    classes: tuple[str, ...] | None,
    place: Place,
    *,
    source: str,
    several: bool = False,
    num_classes: int = 0,
) -> Labels:
    """Make labels of values that are all of one kind.

    Args:
        values: For each sample a class number or a name, None or "" for none; or a vector: a list or an array of
            numbers, or a list of names (or class numbers, with ``several``), which becomes a multi-hot vector.
        classes: The names of the classes; None numbers names in sorted order.
        place: Names a sample for errors.
        source: Names all of it, likewise.
        several: Lists hold the classes of a sample, not the numbers of a vector.
        num_classes: Least length of multi-hot vectors of classes without names.

    Raises:
        SourceError: A value is of another kind, no class, or no vector.
    """
    kinds = [_kind_of(value) for value in values]
    named = next((number for number, kind in enumerate(kinds) if kind != "none"), None)
    if named is None:
        return Labels(LabelTable(np.full(len(values), -1, np.int64)), classes or ())
    first = kinds[named]
    if first == "empty":  # an empty list is one of either kind
        first = next((kind for kind in kinds if kind in ("numbers", "names")), "names")
    allowed = {first, "empty"} if first in ("numbers", "names") else {first, "none"}
    for number, kind in enumerate(kinds):
        if kind not in allowed:
            raise SourceError(
                f"{place(number)}: the label {shorten(values[number])} is of another kind than {shorten(values[named])} at "
                f"{place(named)}: give all samples a class, or all a vector"
            )
    if first not in ("class", "names", "numbers"):
        vector = ": a number to regress is a vector, [0.5] (of a table label=[column])"
        raise SourceError(
            f"{place(named)}: the label {shorten(values[named])} is no class{vector * (first == 'number')}"
        )
    if first == "class":
        return _of_classes(values, classes, place, source)
    if first == "names" or several:
        return _of_several(values, classes, place, source, num_classes)
    return _of_vectors(values, classes, place)


def _kind_of(value: Any) -> str:
    if value is None or (isinstance(value, str) and not value):
        return "none"
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return "class"
    if isinstance(value, list | tuple | np.ndarray):
        if len(value) == 0:
            return "empty"
        return "names" if isinstance(value[0], str) else "numbers"
    return "number" if isinstance(value, float | np.floating) else type(value).__name__


def _of_classes(
    values: Sequence[Any], classes: tuple[str, ...] | None, place: Place, source: str
) -> Labels:
    known = [-1 if value is None or value == "" else value for value in values]
    numbering = _numbering(known, classes, source)
    numbers = np.empty(len(known), np.int64)
    for number, value in enumerate(known):
        numbers[number] = _number(numbering, value, place, number)
    return Labels(LabelTable(numbers), numbering.names)


def _of_several(
    values: Sequence[Any],
    classes: tuple[str, ...] | None,
    place: Place,
    source: str,
    num_classes: int,
) -> Labels:
    """Make multi-hot vectors of lists of classes."""
    numbering = _numbering((one for value in values for one in value), classes, source)
    numbers = [
        [_number(numbering, one, place, number) for one in value]
        for number, value in enumerate(values)
    ]
    highest = max((max(found, default=-1) for found in numbers), default=-1)
    length = len(numbering.names) or max(1 + highest, num_classes, 1)
    table = np.zeros((len(values), length), np.float32)
    for number, found in enumerate(numbers):
        if min(found, default=0) < 0:
            raise SourceError(
                f"{place(number)}: -1 is no class: leave it out where labels are lists"
            )
        table[number, found] = 1
    return Labels(LabelTable(table), numbering.names)


def _of_vectors(values: Sequence[Any], classes: tuple[str, ...] | None, place: Place) -> Labels:
    try:
        table = LabelTable.of_vectors(values)
    except ValueError as error:
        where, _, reason = str(error).partition(": ")
        raise SourceError(f"{place(int(where))}: {reason}") from None
    if classes is not None and table.shape != (len(classes),):
        number = next(i for i, value in enumerate(values) if len(value) != len(classes))
        raise SourceError(
            f"{place(number)}: the label has {len(values[number])} numbers, but classes= names {len(classes)}: give a number "
            "for each class"
        )
    return Labels(table, classes or ())


def _numbering(values: Iterable[Any], classes: tuple[str, ...] | None, source: str) -> Numbering:
    try:
        return numbering_of((value for value in values if value != -1), classes)
    except ValueError as error:
        raise SourceError(f"{source}: {error}") from None


def _number(numbering: Numbering, value: Any, place: Place, number: int) -> int:
    try:
        return numbering.number(value)
    except ValueError as error:
        raise SourceError(f"{place(number)}: {error}") from None
