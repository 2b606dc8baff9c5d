"""Turn labels that a caller gives or a table holds (names, numbers, lists) into class numbers or vectors."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.formats.columns import shorten
from readers.labels.classes import Classes, Numbering, numbering_of, read_classes
from readers.labels.label_vector import LabelTable, to_float32
from readers.plural import counted
from readers.sample import PathLike, SourceError
from readers.storage.paths import has_wildcards

GivenLabels = Sequence[Any] | NDArray[Any] | Mapping[str, Any]
"""A label for each sample in the order of the dataset, or labels by key."""


class Labels(NamedTuple):
    """The labels of a dataset, and its class names.

    Attributes:
        table: Class numbers or vectors by sample index.
        class_names: Name of each class number, or of each number of a vector; empty if they have no names.
    """

    table: LabelTable
    class_names: tuple[str, ...]


Place = Callable[[int], str]
"""A function that returns where a label stands, such as "train.csv, line 8", given its index."""


def make_labels(
    values: Sequence[Any],
    classes: tuple[str, ...] | None,
    place: Place,
    *,
    source: str,
    several: bool = False,
    num_classes: int = 0,
) -> Labels:
    """Return class numbers or vectors, and class names, made from labels of one kind.

    Args:
        values: One label per sample, all of one kind: class numbers or names, with None or "" for no label; or vectors,
            given as lists or arrays of numbers; or lists of class names (or of class numbers, with `several`), which
            become multi-hot vectors.
        classes: Class names in the order of their numbers; None numbers the names in sorted order.
        place: Returns where a label stands, for errors, given its index.
        source: Name of the data, for errors.
        several: Whether lists of numbers hold class numbers rather than the numbers of a vector.
        num_classes: Smallest length of multi-hot vectors if the classes have no names.

    Raises:
        SourceError: Labels are of different kinds, or a label is neither a class nor a vector.
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
    """Return multi-hot vectors, float32 [N, K], made from lists of class names or class numbers."""
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


def given_labels(
    labels: GivenLabels, classes: Classes | None, num_samples: int, keys: Callable[[], list[str]]
) -> Labels:
    """Return class numbers or vectors, and class names, made from the arguments of `with_labels`.

    Args:
        labels: A label for each sample, or a dictionary from keys to labels; see `readers.IndexedDataset.with_labels`.
        classes: Class names in the order of their numbers, or a text file of them; None numbers the names in sorted order.
        num_samples: Number of samples in the dataset.
        keys: Returns the keys of all samples; called only if `labels` is a dictionary.

    Raises:
        SourceError: The number of labels is not that of the samples, labels are of several kinds, or a label is not a
            known class.
    """
    names = read_classes(classes)
    values = _by_key(keys(), labels) if isinstance(labels, Mapping) else labels
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise SourceError(
            f"labels={shorten(values)} is no list of labels: give one for each sample, or a dictionary of them by key"
        )
    if len(values) != num_samples:
        raise SourceError(
            f"labels= has {counted(len(values), 'label')} for {counted(num_samples, 'sample')}: give one for each, in the order "
            "of the dataset, or a dictionary of them by key"
        )
    return _table_of(values, names)


def _by_key(keys: list[str], labels: Mapping[str, Any]) -> list[Any]:
    missing = [key for key in keys if key not in labels]
    if missing:
        raise SourceError(
            f"labels= has no label for {missing[0]}"
            f"{f' and {len(missing) - 1} more' if missing[1:] else ''} of {counted(len(keys), 'sample')}: its keys must be "
            "those of the samples, dataset.keys()"
        )
    return [labels[key] for key in keys]


def _table_of(values: Sequence[Any] | NDArray[Any], names: tuple[str, ...] | None) -> Labels:
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return _of_array(values, names)
    return make_labels(
        [value.item() if isinstance(value, np.generic) else value for value in values],
        names,
        lambda number: f"labels[{number}]",
        source="labels=",
    )


def _of_array(values: NDArray[Any], names: tuple[str, ...] | None) -> Labels:
    is_vectors = values.ndim == 2 and values.shape[1] > 0
    if not is_vectors and not (values.ndim == 1 and values.dtype.kind in "iu"):
        raise SourceError(
            f"labels= is {values.dtype} {list(values.shape)}: give whole numbers [N] for classes, or numbers [N, K] for "
            "vectors (numbers to regress are [N, 1])"
        )
    if names is not None and is_vectors and values.shape[1] != len(names):
        raise SourceError(
            f"labels= has {values.shape[1]} columns, but classes= names {len(names)}: give a column for each class"
        )
    if is_vectors:
        try:
            return Labels(LabelTable(to_float32(values).copy()), names or ())
        except ValueError as error:
            raise SourceError(f"labels=: {error}") from None
    limit = len(names) if names is not None else 1 << 63
    wrong = np.flatnonzero((values < -1) | (values >= limit)) if len(values) else values
    if len(wrong):
        raise SourceError(
            f"labels[{wrong[0]}] is {values[wrong[0]]}, but a class number is from 0 to {limit - 1}, or -1 for none"
        )
    return Labels(LabelTable(values.astype(np.int64)), names or ())


def split_pairs(source: Any, labels: GivenLabels | None) -> tuple[Any, GivenLabels | None]:
    """Split a source that is a list of (path, label) pairs into a list of paths and a list of labels.

    A source of another kind is returned unchanged, together with `labels`.

    Args:
        source: The argument `source` of `readers.open_dataset`.
        labels: The argument `labels` of `readers.open_dataset`.

    Raises:
        SourceError: Pairs are mixed with paths, a path in a pair is a pattern, or both pairs and `labels` are given.
    """
    pairs = _pairs_of(source)
    if pairs is None:
        return source, labels
    if labels is not None:
        raise SourceError(
            "labels= and pairs of a path and a label are given: leave one of them out"
        )
    wild = next((path for path, _ in pairs if has_wildcards(os.fspath(path))), None)
    if wild is not None:
        raise SourceError(f"{wild} is a pattern, and a pair names one file: give a pair for each")
    return [path for path, _ in pairs], [label for _, label in pairs]


def _pairs_of(source: Any) -> list[tuple[PathLike, Any]] | None:
    """Return a source as a list of (path, label) pairs; None if it holds no pairs.

    Raises:
        SourceError: Only some of the entries are pairs.
    """
    if isinstance(source, (str, os.PathLike)) or not isinstance(source, Sequence):
        return None
    are_pairs = [isinstance(one, tuple | list) for one in source]
    if not any(are_pairs):
        return None
    for number, one in enumerate(source):
        is_path = are_pairs[number] and len(one) == 2 and isinstance(one[0], (str, os.PathLike))
        if not is_path:
            raise SourceError(
                f"source[{number}] is no pair of a path and a label, as others in the list are: give (path, label) for each"
            )
    return [(one[0], one[1]) for one in source]
