"""Labels that somebody gives to the samples of a dataset, in its order or by their keys."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.classes import Classes, read_classes
from readers.formats.columns import shorten
from readers.label_table import LabelTable
from readers.label_values import Labels, make_labels
from readers.label_vector import to_float32
from readers.plural import counted
from readers.sample import PathLike, SourceError
from readers.storage.paths import has_wildcards

GivenLabels = Sequence[Any] | NDArray[Any] | Mapping[str, Any]
"""A label for each sample, in the order of the dataset, or for each key."""


def given_labels(
    labels: GivenLabels, classes: Classes | None, num_samples: int, keys: Callable[[], list[str]]
) -> Labels:
    """Return the labels of a dataset.

    Args:
        labels: As `readers.IndexedDataset.with_labels` takes them.
        classes: Likewise.
        num_samples: Length of the dataset.
        keys: Returns the keys of its samples; called where labels are by key.

    Raises:
        SourceError: There is not one label for each sample, or one is of another kind or no class.
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
    """Return paths and labels of pairs of both; a source without pairs, and its labels, as they are.

    Args:
        source: What `readers.open_dataset` is given.
        labels: Labels that were given besides.

    Raises:
        SourceError: Some of the source are pairs and others are not, or one is a pattern, or there are labels besides.
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
    """Return pairs of a path and a label; None where the source is something else."""
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
