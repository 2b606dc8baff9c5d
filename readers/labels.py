"""A dataset with other labels than it holds."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.classes import Classes, read_classes
from readers.dataset import IndexedDataset, Subset
from readers.label_table import LabelTable
from readers.label_values import Labels, make_labels
from readers.label_vector import LabelShape
from readers.plural import counted
from readers.sample import BadSample, ColumnName, Sample, SourceError
from readers.selection import Stretch

GivenLabels = Sequence[Any] | NDArray[Any] | Mapping[str, Any]
"""A label for each sample, in the order of the dataset, or for each key."""


class Relabelled(Subset):
    """The samples of a dataset with labels that are given; `IndexedDataset.with_labels` makes it.

    Attributes:
        whole: The dataset.

    Example:
        >>> photos = open_dataset("photos/").take(2).with_labels(["tabby", "siamese"])
        >>> photos.class_names, [sample.label for sample in photos.fetch([0, 1])]
        (('siamese', 'tabby'), [1, 0])
    """

    def __init__(
        self, whole: IndexedDataset, labels: GivenLabels, *, classes: Classes | None = None
    ) -> None:
        super().__init__(whole, Stretch(range(len(whole))))
        names = read_classes(classes)
        values = _by_key(whole, labels) if isinstance(labels, Mapping) else labels
        if len(values) != len(whole):
            raise SourceError(
                f"labels= has {len(values)} labels for {counted(len(whole), 'sample')}: give one for each, in the order of "
                "the dataset, or a dictionary of them by key"
            )
        self._table, self._class_names, _ = _table_of(values, names)

    def __repr__(self) -> str:
        """The dataset."""
        return f"Relabelled({self.whole!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the dataset, the labels and the names of the classes."""
        text = f"labels {self.whole.fingerprint} {self._table.identity} {list(self._class_names)}"
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, or of each number of a vector; empty where they have none."""
        return self._class_names

    @property
    def label_shape(self) -> LabelShape:
        """See `IndexedDataset.label_shape`."""
        return self._table.shape

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`."""
        return self._table.class_numbers() if name == "label" else self.whole.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples; see `Dataset.fetch`."""
        return [
            replace(sample, label=self._table[sample.index])
            if isinstance(sample, Sample)
            else sample
            for sample in self.whole.fetch(indices)
        ]


def _by_key(whole: IndexedDataset, labels: Mapping[str, Any]) -> list[Any]:
    keys = whole.keys()
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
        return Labels(LabelTable(np.array(values, np.float32)), names or ())
    limit = len(names) if names is not None else 1 << 63
    wrong = np.flatnonzero((values < -1) | (values >= limit)) if len(values) else values
    if len(wrong):
        raise SourceError(
            f"labels[{wrong[0]}] is {values[wrong[0]]}, but a class number is from 0 to {limit - 1}, or -1 for none"
        )
    return Labels(LabelTable(values.astype(np.int64)), names or ())
