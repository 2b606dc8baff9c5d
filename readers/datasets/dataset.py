"""The base class of all datasets of this package, and the selections that its methods make."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from readers.datasets.fetched import FetchedDataset, UnreadableLabelsError
from readers.datasets.located import Located, Reads
from readers.datasets.origin import Origin, origin_of, sources_of
from readers.datasets.selection import (
    RangeSelection,
    Selection,
    pick_shares,
    pick_taken,
    pick_where,
)
from readers.labels.classes import Classes
from readers.labels.given_labels import GivenLabels, given_labels
from readers.labels.label_vector import LabelShape, label_shape_of
from readers.labels.unlabelled import Unlabelled
from readers.order.proportion import (
    ProportionalOrder,
    checked_length,
    class_weights,
    group_classes,
    require_classes,
)
from readers.order.shuffle import AnyOrder, Shuffle
from readers.plural import counted
from readers.sample import (
    BadSample,
    ColumnName,
    Dataset,
    FieldTypes,
    Sample,
    SelectionError,
    checked_indices,
    single_index,
    sound,
)


class IndexedDataset(FetchedDataset):
    """A `readers.Dataset` whose samples can be selected.

    Selections are datasets, too. They have indices of their own, the keys and class names of the dataset they were
    taken from, and another fingerprint, so that a run is resumed only on the same selection. Nothing is copied, and
    selections can be selected from again.

    Example:
        >>> photos = open_dataset("photos/")
        >>> train, val = photos.split(0.75, 0.25, seed=0)
        >>> len(train), len(val)
        (27, 9)
        >>> photos.column("label")[:3]
        array([0, 0, 0])
        >>> photos[-1].key, photos.classes
        ('dog/017.jpg', ('cat', 'dog'))
    """

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> "Subset": ...
    def __getitem__(self, index: int | slice) -> "Sample | Subset":
        """Return one sample, counted from the end where the index is negative; or those of a slice, as `take` does.

        Raises:
            SourceError: The sample is bad; the text gives the reason.
            IndexError: There is no such sample.
            TypeError: It is neither a number nor a slice.
        """
        if isinstance(index, slice):
            return self.take(index)
        length, number = len(self), single_index(index)
        if not -length <= number < length:
            raise IndexError(f"index must be in {-length} <= index < {length}, got {number}")
        return sound(self.fetch([number % length])[0])

    def where(self, condition: str | NDArray[np.bool_] | Sequence[bool]) -> "Subset":
        """Select the samples that fulfil a condition, in their order.

        Args:
            condition: Text such as ``"label in [1, 2] and height >= 224"``, over the columns label, height,
                width and num_bytes; see `readers.datasets.expression`. Labels may be given by name if the data names its
                classes: ``"label == 'cat'"``. Or one truth value per sample, bool [len].

        The columns in the text are read once. Every selected sample takes 4 bytes, or 8 bytes if there are more than
        2**32 samples.

        Raises:
            SelectionError: The text is not such a condition, no sample fulfils it, or it uses labels that are vectors.
        """
        self._require_selectable("where")
        return Subset(self, pick_where(condition, len(self), self._asked, self.class_names))

    def take(self, which: int | slice | range | Sequence[int] | NDArray[np.int64]) -> "Subset":
        """Select the first n samples, those of a slice or range, or those at the given indices, in that order.

        Indices may be repeated, and take 4 or 8 bytes each. Numbers, slices and ranges take no memory.

        Raises:
            SelectionError: There are no such samples, or none were asked for.
        """
        self._require_selectable("take")
        return Subset(self, pick_taken(which, len(self)))

    def split(self, *shares: float, seed: int = 0) -> "tuple[Subset, ...]":
        """Divide the samples at random into disjoint parts.

        Args:
            shares: Shares of the dataset, such as 0.9 and 0.1, or numbers of samples. Samples beyond their sum are in
                no part.
            seed: Seed of the division, >= 0.

        Sizes are exact: shares with the sum 1 take all samples. Every 256 neighbours are divided in the same
        proportions, up to one sample, so data that is sorted by class is divided evenly within the classes. A part
        keeps the order of the dataset up to a rotation and to permutations within such groups of 256. It takes no
        memory.

        Raises:
            SelectionError: The sum of the shares is larger than the dataset, or one of them gets no sample.
        """
        self._require_selectable("split")
        return tuple(Subset(self, picked) for picked in pick_shares(shares, seed, len(self)))

    def balanced(
        self, weights: Mapping[int | str, float] | None = None, *, length: int | None = None
    ) -> "Balanced":
        """Return the same samples, drawn so that all classes come equally often.

        All samples of a class come once, in an order of their own, before one of them comes again; this continues
        from epoch to epoch. The labels are read, and each sample takes 4 or 8 bytes.

        Args:
            weights: Relative frequency of each class, by number or name, 1 by default; 0 leaves a class out.
            length: Samples in an epoch; None takes the number of samples.

        Raises:
            SelectionError: A sample has no label, there is no such class, or labels are vectors.
        """
        self._require_selectable("balanced")
        return Balanced(self, weights, length=length)

    def with_labels(self, labels: GivenLabels, *, classes: Classes | None = None) -> "Relabelled":
        """Return the same samples with other labels.

        Args:
            labels: For each sample a class number, the name of a class, None for none, or a vector (several classes,
                shares of classes, numbers to regress); or an array, whole numbers [N] or numbers [N, K]; or any of
                these by key.
            classes: Names in the order of their numbers, or a text file with one per line; None numbers names in
                sorted order.

        Raises:
            SourceError: There is not one label for each sample, or one is of another kind or no class.
        """
        self._require_selectable("with_labels")
        return Relabelled(self, labels, classes=classes)

    @property
    def _is_mixture(self) -> bool:
        """Whether samples come in fixed proportions, which a selection would change."""
        return False

    def _asked(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column that a condition asks for."""
        if name == "label":
            require_classes(label_shape_of(self), "where")
        return self.column(name)

    def _require_selectable(self, method: str) -> None:
        if self._is_mixture:
            raise SelectionError(
                f"{method}() is not possible on a mixture or a balanced dataset, which says itself how often "
                f"each sample comes; call {method}() on the datasets it is made of, then mix or balance"
            )


class _Selection(IndexedDataset):
    """Properties that selected samples have in common with their dataset, `whole`."""

    whole: IndexedDataset

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the whole dataset; classes keep their numbers."""
        return self.whole.class_names

    @property
    def field_types(self) -> FieldTypes:
        """Those of the whole dataset."""
        return self.whole.field_types

    @property
    def label_shape(self) -> LabelShape:
        """That of the whole dataset."""
        return label_shape_of(self.whole)

    @property
    def kind_of_media(self) -> Literal["images", "videos", ""]:  # type: ignore[override]
        """That of the whole dataset."""
        return self.whole.kind_of_media

    def sources(self) -> tuple[Dataset, ...]:
        """Return those of the whole dataset."""
        return sources_of(self.whole)

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        """Return which samples of `sources` some samples are; indices are those of the whole dataset."""
        return origin_of(self.whole, indices)


class Subset(_Selection):
    """Some of the samples of a dataset; `IndexedDataset.where`, `take` and `split` make it.

    Attributes:
        whole: The dataset they are taken from.

    Example:
        >>> cats = open_dataset("photos/").where("label == 'cat'")
        >>> len(cats), len(cats.take(5))
        (18, 5)
    """

    def __init__(self, whole: IndexedDataset, picked: Selection) -> None:
        self.whole = whole
        self._picked = picked

    def __len__(self) -> int:
        return len(self._picked)

    def __repr__(self) -> str:
        """The size of the subset and its dataset."""
        return f"Subset({counted(len(self), 'sample')} of {self.whole!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the whole and which samples these are."""
        text = f"{self.whole.fingerprint} {self._picked.identity}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """About the number of samples of a block of the whole that are selected."""
        return max(1, round(self.whole.block_size * self._picked.density))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column; an unreadable label is an error only if its sample is in the subset."""
        rows = self._picked.in_whole(np.arange(len(self)))
        try:
            return self.whole.column(name)[rows]
        except UnreadableLabelsError as error:
            return self._readable(error.labels[rows])

    def _of_whole(self) -> Unlabelled | None:
        """Return what the whole knows of samples without labels, if it is true of the subset as well; else None."""
        count, fields, reason = self.whole.unlabelled or (0, (), "")
        is_of_all = count == len(self.whole)
        return (
            (min(count, len(self)), fields, reason)
            if is_of_all or len(self) == len(self.whole)
            else None
        )

    def keys(self) -> list[str]:
        keys = self.whole.keys()
        return [keys[index] for index in self._picked.in_whole(np.arange(len(self))).tolist()]

    def indices_in_whole(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of samples in the dataset they are taken from, int64 [n]."""
        return self._picked.in_whole(np.array(checked_indices(indices, len(self)), np.int64))

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        return origin_of(self.whole, self.indices_in_whole(indices))

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples of the whole; see `Dataset.fetch`."""
        own = checked_indices(indices, len(self))
        if not own:
            return []
        fetched = self.whole.fetch(self._picked.in_whole(np.array(own, np.int64)))
        return [replace(sample, index=index) for sample, index in zip(fetched, own, strict=True)]

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        own = checked_indices(indices, len(self))
        found = self.whole.locate(self._picked.in_whole(np.array(own, np.int64)), reads)
        if found is None:
            return None
        return found.changed(lambda row, sample: replace(sample, index=own[row]))


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
        super().__init__(whole, RangeSelection(range(len(whole))))
        found = given_labels(labels, classes, len(whole), whole.keys)
        self._table, self._class_names = found.table, found.class_names

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
        return self._table.shape

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        return self._table.class_numbers() if name == "label" else self.whole.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples; see `Dataset.fetch`."""
        return [
            replace(sample, label=self._table[sample.index])
            if isinstance(sample, Sample)
            else sample
            for sample in self.whole.fetch(indices)
        ]

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        found = self.whole.locate(indices, reads) if self._table.shape == () else None
        if found is None:
            return None
        labels = np.array(self._table.values[np.asarray(indices, np.int64)], np.int64)
        moved = found.changed(lambda row, sample: replace(sample, label=int(labels[row])))
        return replace(moved, labels=labels)


class Balanced(_Selection):
    """A dataset whose classes come in fixed proportions; `IndexedDataset.balanced` makes it.

    Indices are those of the dataset itself.

    Attributes:
        whole: The dataset.

    Example:
        >>> photos = open_dataset("photos/")
        >>> photos.balanced({"cat": 3, "dog": 1}, length=100)
        Balanced(...)
    """

    def __init__(
        self,
        whole: IndexedDataset,
        weights: Mapping[int | str, float] | None = None,
        *,
        length: int | None = None,
    ) -> None:
        require_classes(label_shape_of(whole), "balanced")
        self.whole = whole
        self._weights = class_weights(weights or {}, whole.class_names)
        self._num_positions = checked_length(length, len(whole))
        _ = self._groups  # errors shall come here, not in the first epoch

    def __len__(self) -> int:
        return len(self.whole)

    def __repr__(self) -> str:
        """The balanced dataset, and the length of an epoch if it differs."""
        epoch = self._num_positions
        said = "" if epoch == len(self.whole) else f", {counted(epoch, 'sample')} an epoch"
        return f"Balanced({self.whole!r}{said})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the samples of the classes, which only orders need."""
        return {name: value for name, value in vars(self).items() if name != "_groups"}

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the dataset and the weights."""
        weights = sorted((label, float(weight)) for label, weight in self._weights.items())
        text = f"balanced {self.whole.fingerprint} {weights} {self._num_positions}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def block_size(self) -> int:
        """Block size of the dataset."""
        return self.whole.block_size

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        return self.whole.column(name)

    def keys(self) -> list[str]:
        return self.whole.keys()

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        return self.whole.fetch(indices)

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        return self.whole.locate(indices, reads)

    def order(
        self, *, seed: int = 0, shuffle: Shuffle = "global", shuffle_window: int | None = None
    ) -> AnyOrder:
        """The order of the samples; see `IndexedDataset.order`.

        Raises:
            SelectionError: The shuffle is "block": the samples of a class lie anywhere.
        """
        if shuffle == "block" or shuffle_window is not None:
            raise SelectionError(
                'shuffle="block" is not possible with balanced classes, whose samples lie anywhere in the '
                'data; use "global" or "none"'
            )
        members, sizes, weights = self._groups
        return ProportionalOrder(
            self._num_positions, seed, sizes, weights, members, shuffled=shuffle != "none"
        )

    @property
    def _is_mixture(self) -> bool:
        return True

    @cached_property
    def _groups(self) -> tuple[NDArray[Any], NDArray[np.int64], tuple[float, ...]]:
        """The samples class by class, how many each class has, and its weight; without those of weight 0."""
        return group_classes(self.whole.column("label"), self._weights)
