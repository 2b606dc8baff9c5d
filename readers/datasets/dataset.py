"""The base class of all datasets of this package, and the selections that its methods make."""

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
from readers.fingerprint import fingerprint_of
from readers.labels.classes import Classes
from readers.labels.flip_pairs import FlipPairs
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
    """A `readers.Dataset` with methods that select, split, balance and relabel its samples.

    A selection is a dataset, too: samples can be selected from it again, and nothing is copied. It has indices of its
    own, the keys and class names of the original dataset, and another fingerprint, so that a run is resumed only on the
    same selection.

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
        """Return the sample at an integer index, or a `Subset` of the samples of a slice.

        A negative index counts from the end.

        Raises:
            SourceError: The sample is bad; the text gives the reason.
            IndexError: The index is outside the dataset.
            TypeError: `index` is neither an integer nor a slice.
        """
        if isinstance(index, slice):
            return self.take(index)
        length, number = len(self), single_index(index)
        if not -length <= number < length:
            raise IndexError(f"index must be in {-length} <= index < {length}, got {number}")
        return sound(self.fetch([number % length])[0])

    def where(self, condition: str | NDArray[np.bool_] | Sequence[bool]) -> "Subset":
        """Return the samples that fulfil a condition, in the order of the dataset.

        Args:
            condition: Text such as ``"label in [1, 2] and height >= 224"``, over the columns label, height,
                width and num_bytes; see `readers.datasets.expression`. Labels may be given by name if the data names its
                classes: ``"label == 'cat'"``. Or one truth value per sample, bool [len].

        The columns in the text are read once. Every selected sample takes 4 bytes of memory, or 8 bytes if the dataset
        has more than 2**32 samples.

        Raises:
            SelectionError: The text is not a valid condition, no sample fulfils it, or it uses labels that are vectors.
        """
        self._require_selectable("where")
        return Subset(self, pick_where(condition, len(self), self._asked, self.class_names))

    def take(self, which: int | slice | range | Sequence[int] | NDArray[np.int64]) -> "Subset":
        """Return some samples: the first `which` samples, or those of a slice or range, or those at a list of indices.

        The samples keep the given order. Indices may be repeated, and take 4 or 8 bytes of memory each; a number, slice
        or range takes none.

        Raises:
            SelectionError: `which` selects no sample, or an index is outside the dataset.
        """
        self._require_selectable("take")
        return Subset(self, pick_taken(which, len(self)))

    def split(self, *shares: float, seed: int = 0) -> "tuple[Subset, ...]":
        """Divide the samples at random into disjoint parts, and return one `Subset` for each share.

        Args:
            shares: Size of each part, as shares of the dataset, such as 0.9 and 0.1, or as counts of samples. If the
                sizes do not add up to the whole dataset, the remaining samples are in no part.
            seed: Seed of the division, >= 0.

        Sizes are exact: shares with the sum 1 take all samples. Every 256 neighbours are divided in the same
        proportions, up to one sample, so data that is sorted by class is divided evenly within the classes. A part
        keeps the order of the dataset up to a rotation and to permutations within such groups of 256. It takes no
        memory.

        Raises:
            SelectionError: The sum of the shares is larger than the dataset, or a part gets no sample.
        """
        self._require_selectable("split")
        return tuple(Subset(self, picked) for picked in pick_shares(shares, seed, len(self)))

    def balanced(
        self, weights: Mapping[int | str, float] | None = None, *, length: int | None = None
    ) -> "Balanced":
        """Return a dataset of these samples whose order has all classes equally often, or in proportion to `weights`.

        All samples of a class come once, in random order, before one of them comes again; this continues
        from epoch to epoch. The labels are read, and each sample takes 4 or 8 bytes of memory.

        Args:
            weights: Relative frequency of each class, by class number or name. A class that is not named has 1; a class
                with 0 is left out.
            length: Number of samples in an epoch; None takes the length of the dataset.

        Raises:
            SelectionError: A sample has no label, no sample has a class of `weights`, or labels are vectors.
        """
        self._require_selectable("balanced")
        return Balanced(self, weights, length=length)

    def with_labels(self, labels: GivenLabels, *, classes: Classes | None = None) -> "Relabelled":
        """Return a dataset of these samples whose labels are replaced by `labels`.

        Args:
            labels: For each sample a class number, the name of a class, None (no label), or a vector (several classes,
                shares of classes, numbers to regress); or an array, integers [N] or numbers [N, K]; or a dictionary
                from sample keys to labels.
            classes: Class names in the order of their numbers, or a text file with one name per line; None numbers the
                names in `labels` in sorted order.

        Raises:
            SourceError: The number of labels is not that of the samples, labels are of several kinds, or a label is not
                a valid class.
        """
        self._require_selectable("with_labels")
        return Relabelled(self, labels, classes=classes)

    @property
    def _is_mixture(self) -> bool:
        """Whether samples come in fixed proportions, which a selection would change."""
        return False

    def _asked(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column for a condition, after checking that labels are class numbers."""
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
    """Base class of selections: properties that are the same as those of the original dataset, `whole`."""

    whole: IndexedDataset

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names of the original dataset; classes keep their numbers."""
        return self.whole.class_names

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """Keypoint names of the original dataset."""
        return self.whole.keypoint_names

    @property
    def flip_pairs(self) -> FlipPairs | None:
        """Flip pairs of the original dataset."""
        return self.whole.flip_pairs

    @property
    def field_types(self) -> FieldTypes:
        """Field types of the original dataset."""
        return self.whole.field_types

    @property
    def label_shape(self) -> LabelShape:
        """Label shape of the original dataset."""
        return label_shape_of(self.whole)

    @property
    def kind_of_media(self) -> Literal["images", "videos", ""]:  # type: ignore[override]
        """Kind of media of the original dataset."""
        return self.whole.kind_of_media

    def sources(self) -> tuple[Dataset, ...]:
        """Return the sources of the original dataset."""
        return sources_of(self.whole)

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        """Return the datasets that read some samples, and the indices in these.

        Args:
            indices: int64 [n], indices in the original dataset.
        """
        return origin_of(self.whole, indices)


class Subset(_Selection):
    """A selection of samples of a dataset; `IndexedDataset.where`, `take` and `split` make it.

    Attributes:
        whole: The original dataset, from which the samples are selected.

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
        """Show the number of samples and the original dataset."""
        return f"Subset({counted(len(self), 'sample')} of {self.whole!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the original dataset and the selected indices."""
        return fingerprint_of(f"{self.whole.fingerprint} {self._picked.identity}")

    @property
    def block_size(self) -> int:
        """Approximate number of selected samples in one block of the original dataset, at least 1."""
        return max(1, round(self.whole.block_size * self._picked.density))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return a column, one number per selected sample; unreadable labels of other samples are no error."""
        rows = self._picked.in_whole(np.arange(len(self)))
        try:
            return self.whole.column(name)[rows]
        except UnreadableLabelsError as error:
            return self._readable(error.labels[rows])

    def _of_whole(self) -> Unlabelled | None:
        """Return the facts about unlabelled samples of the original dataset, if they hold for the subset, too; else None."""
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
        """Return the indices in the original dataset, int64 [n], given indices in this subset."""
        return self._picked.in_whole(np.array(checked_indices(indices, len(self)), np.int64))

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        return origin_of(self.whole, self.indices_in_whole(indices))

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples from the original dataset; see `Dataset.fetch`."""
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
    """A dataset whose labels are replaced by given ones; `IndexedDataset.with_labels` makes it.

    Attributes:
        whole: The original dataset.

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
        """Show the original dataset."""
        return f"Relabelled({self.whole!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the original dataset, the new labels and the class names."""
        names = list(self._class_names)
        return fingerprint_of(f"labels {self.whole.fingerprint} {self._table.identity} {names}")

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name of each class number, or of each number of a vector; empty if no names are known."""
        return self._class_names

    @property
    def label_shape(self) -> LabelShape:
        return self._table.shape

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        return self._table.class_numbers() if name == "label" else self.whole.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples and replace their labels; see `Dataset.fetch`."""
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
    """A dataset whose order has the classes in fixed proportions; `IndexedDataset.balanced` makes it.

    Every sample has the same index as in the original dataset.

    Attributes:
        whole: The original dataset.

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
        """Show the original dataset, and the length of an epoch if it is another one."""
        epoch = self._num_positions
        said = "" if epoch == len(self.whole) else f", {counted(epoch, 'sample')} an epoch"
        return f"Balanced({self.whole!r}{said})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the samples of each class, which only orders need."""
        return {name: value for name, value in vars(self).items() if name != "_groups"}

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the original dataset, the weights and the length of an epoch."""
        weights = sorted((label, float(weight)) for label, weight in self._weights.items())
        return fingerprint_of(f"balanced {self.whole.fingerprint} {weights} {self._num_positions}")

    @property
    def block_size(self) -> int:
        """Block size of the original dataset."""
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
        """Return the order of the samples in every epoch, with the classes in their proportions; see `IndexedDataset.order`.

        Raises:
            SelectionError: `shuffle` is "block", which is impossible because the samples of a class are spread over all
                blocks.
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
        """Indices of samples class by class, the size of each class, and its weight; without classes of weight 0."""
        return group_classes(self.whole.column("label"), self._weights)
