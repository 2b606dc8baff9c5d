"""Several datasets as one, and one dataset with its classes in balance."""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from readers.dataset import ColumnName, IndexedDataset, SelectionError
from readers.order import AnyOrder, Order, Shuffle, make_order
from readers.plural import counted
from readers.proportion import ProportionalOrder, seed_of_group
from readers.sample import BadSample, Dataset, Sample, checked_indices

_MAX_SHOWN = 3  # datasets, in a text
_MOST_COUNTED = 1 << 24  # labels below this are counted in a table
_PIECE = 1 << 20
_LARGEST_RATIO = 1_000_000  # of weights, which are told apart to 9 digits


class Mixture(IndexedDataset):
    """Several datasets one behind the other, whose samples come in fixed proportions; see `mix`.

    An index is that of the sample in its dataset, plus the lengths of those before.

    Attributes:
        datasets: What it is made of.
        weights: How often each comes, 1 together; empty where each sample comes once an epoch.
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        weights: Sequence[float] | None = None,
        *,
        length: int | None = None,
        names: Sequence[str] | None = None,
        labels: Literal["same", "offset"] = "same",
    ) -> None:
        self.datasets = tuple(datasets)
        _check_datasets(self.datasets)
        if labels not in ("same", "offset"):
            raise SelectionError(f'mix() has labels={labels!r}; allowed are "same" and "offset"')
        if names is not None and len(names) != len(self.datasets):
            raise SelectionError(
                f"mix() got {len(names)} names for {len(self.datasets)} datasets; give one for each"
            )
        self._names = None if names is None else tuple(names)
        self._starts = list(accumulate(map(len, self.datasets), initial=0))
        if weights is None and length is not None:
            weights = [len(dataset) for dataset in self.datasets]
        self.weights = () if weights is None else _shares(weights, len(self.datasets))
        self._num_positions = _checked_length(length, self._starts[-1])
        self._class_names, self._offsets = _merged_classes(self.datasets, labels)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        """What it is made of, and how often that comes."""
        shown = [repr(dataset) for dataset in self.datasets[:_MAX_SHOWN]]
        if (more := len(self.datasets) - len(shown)) > 0:
            shown.append(f"and {more} more")
        weights = ", ".join(f"{weight:.3g}" for weight in self.weights[:_MAX_SHOWN])
        said = f", weights={weights}{', ...' * (more > 0)}" if weights else ""
        return f"Mixture({counted(len(self), 'sample')}: {', '.join(shown)}{said})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprints of the datasets, their weights and what becomes of labels."""
        parts = [dataset.fingerprint for dataset in self.datasets]
        text = f"mix {parts} {list(self.weights)} {self._num_positions} {self._offsets}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those that the datasets have in common, or all of them, one dataset behind the other."""
        return self._class_names

    @property
    def block_size(self) -> int:
        """The smallest of the datasets'; in a mixture by weights each goes by its own."""
        return min(map(_block_size, self.datasets))

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`.

        Raises:
            SelectionError: A dataset of another kind has no columns.
        """
        columns = []
        for dataset, offset in zip(self.datasets, self._offsets, strict=True):
            if not isinstance(dataset, IndexedDataset):
                raise SelectionError(
                    f"{type(dataset).__name__} has no columns; derive it from readers.IndexedDataset"
                )
            values = dataset.column(name)
            moved = name == "label" and offset > 0
            columns.append(np.where(values < 0, values, values + offset) if moved else values)
        return np.concatenate(columns)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read from each dataset in one go; see `Dataset.fetch`."""
        own = checked_indices(indices, len(self))
        rows: dict[int, list[int]] = {}
        for row, index in enumerate(own):
            rows.setdefault(bisect_right(self._starts, index) - 1, []).append(row)
        found: list[Any] = [None] * len(own)
        for number, of_one in rows.items():
            start = self._starts[number]
            places = np.array([own[row] - start for row in of_one], np.int64)
            fetched = self.datasets[number].fetch(places)
            for row, sample in zip(of_one, fetched, strict=True):
                found[row] = self._renamed(sample, own[row], number)
        return found

    def order(
        self, *, seed: int = 0, shuffle: Shuffle = "global", shuffle_window: int | None = None
    ) -> AnyOrder:
        """The order of the samples; see `IndexedDataset.order`.

        With "block", each dataset has open blocks of its own, `shuffle_window` together.
        """
        if not self.weights:
            return super().order(seed=seed, shuffle=shuffle, shuffle_window=shuffle_window)
        orders: list[Order] = []
        if shuffle == "block":
            orders = [
                make_order(
                    len(dataset),
                    seed_of_group(seed, number),
                    "block",
                    block_size=_block_size(dataset),
                    shuffle_window=shuffle_window
                    and math.ceil(shuffle_window * self.weights[number]),
                )
                for number, dataset in enumerate(self.datasets)
            ]
        return ProportionalOrder(
            self._num_positions,
            seed,
            np.diff(self._starts),
            self.weights,
            orders=tuple(orders),
            shuffled=shuffle != "none",
        )

    @property
    def _is_mixture(self) -> bool:
        return bool(self.weights)

    def _renamed(self, sample: Sample | BadSample, index: int, number: int) -> Sample | BadSample:
        key = sample.key if self._names is None else f"{self._names[number]}/{sample.key}"
        if isinstance(sample, BadSample):
            return replace(sample, index=index, key=key)
        label = sample.label + self._offsets[number] if sample.label >= 0 else sample.label
        return replace(sample, index=index, key=key, label=label)


def mix(
    datasets: Sequence[Dataset],
    weights: Sequence[float] | None = None,
    *,
    length: int | None = None,
    names: Sequence[str] | None = None,
    labels: Literal["same", "offset"] = "same",
) -> Mixture:
    """Make one dataset of several.

    Args:
        datasets: Anything with the interface of a dataset.
        weights: How often each dataset comes, in any unit. Every stretch of the order has them in these
            proportions. A dataset is gone through completely, in an order of its own each time, before one
            of its samples comes again; that goes on from epoch to epoch. A sample that comes again in an
            epoch is augmented in another way. None: every sample once an epoch, all shuffled together.
        length: Samples in an epoch; None is as many as the datasets have together.
        names: Of the datasets; each is put before the keys of its samples.
        labels: "same" keeps class numbers, for datasets with one list of classes, or without names of
            classes. "offset" puts the classes of the datasets one behind the other; all must name them.

    Raises:
        SelectionError: The datasets do not fit together, or the numbers cannot work.
    """
    return Mixture(datasets, weights, length=length, names=names, labels=labels)


class Balanced(IndexedDataset):
    """A dataset whose classes come in fixed proportions; `IndexedDataset.balanced` makes it.

    Indices are those of the dataset itself.

    Attributes:
        whole: The dataset.
    """

    def __init__(
        self,
        whole: IndexedDataset,
        weights: Mapping[int | str, float] | None = None,
        *,
        length: int | None = None,
    ) -> None:
        self.whole = whole
        given = {} if weights is None else weights
        self._weights = {self._class_number(name): given[name] for name in given}
        for label, weight in self._weights.items():
            if not _is_number(weight) or weight < 0:
                raise SelectionError(
                    f"balanced() has the weight {weight!r} for class {label}; give a number from 0"
                )
        self._num_positions = _checked_length(length, len(whole))
        _ = self._groups  # refused here, not in the first loop

    def __len__(self) -> int:
        return len(self.whole)

    def __repr__(self) -> str:
        """What is balanced, and how long an epoch is where that differs."""
        epoch = self._num_positions
        said = "" if epoch == len(self.whole) else f", {counted(epoch, 'sample')} an epoch"
        return f"Balanced({self.whole!r}{said})"

    def __reduce__(self) -> tuple[Any, ...]:
        """The samples of the classes are not sent: only orders need them."""
        return _again, (self.whole, self._weights, self._num_positions)

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprint of the dataset and the weights."""
        weights = sorted((label, float(weight)) for label, weight in self._weights.items())
        text = f"balanced {self.whole.fingerprint} {weights} {self._num_positions}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those of the dataset."""
        return self.whole.class_names

    @property
    def block_size(self) -> int:
        """That of the dataset."""
        return self.whole.block_size

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """See `IndexedDataset.column`."""
        return self.whole.column(name)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """See `Dataset.fetch`."""
        return self.whole.fetch(indices)

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
        labels = self.whole.column("label")
        if not len(labels) or labels.min() < 0:
            count = int((labels < 0).sum())
            raise SelectionError(
                f"balanced() needs a label for each sample, but {count} of {len(labels)} have none; leave them "
                f'out with where("label >= 0"), or label them'
            )
        present, sizes = _count(labels)
        missing = self._weights.keys() - set(present.tolist())
        if missing:
            raise SelectionError(
                f"balanced() has a weight for class {min(missing)}, of which there is no sample; leave it out"
            )
        of_class = np.array([float(self._weights.get(label, 1)) for label in present.tolist()])
        kept = of_class > 0
        if not kept.any():
            raise SelectionError(
                "balanced() has the weight 0 for every class; give one of them more"
            )
        shares = _shares(of_class[kept].tolist(), int(kept.sum()))
        return _grouped(labels, present[kept], sizes[kept]), sizes[kept].astype(np.int64), shares

    def _class_number(self, name: int | str) -> int:
        if isinstance(name, str):
            if name not in self.class_names:
                raise SelectionError(
                    f"balanced() has a weight for the class {name!r}, which there is not; the data names "
                    f"{', '.join(self.class_names[:10]) or 'no classes'}"
                )
            return self.class_names.index(name)
        return int(name)


def _count(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels that there are, ascending, and how often each is there."""
    if labels.max() >= _MOST_COUNTED:
        return np.unique(labels, return_counts=True)
    sizes = np.bincount(labels)
    present = np.flatnonzero(sizes)
    return present, sizes[present]


def _grouped(
    labels: NDArray[np.int64], present: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the places of some labels, label by label, each ascending: uint32, int64 where that is too small.

    A piece at a time: sorting all at once takes thirty times the memory of the result.
    """
    members = np.empty(int(sizes.sum()), np.uint32 if len(labels) <= 2**32 else np.int64)
    free = np.cumsum(sizes) - sizes  # where the next place of each label goes
    small = np.uint16 if len(present) < 1 << 16 else np.int64  # NumPy sorts 16 bits by counting
    number_of = _numbering(present)
    for start in range(0, len(labels), _PIECE):
        piece = labels[start : start + _PIECE]
        numbers = number_of(piece)
        places = np.flatnonzero(numbers >= 0)
        numbers = numbers[places].astype(small)
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=len(present))
        before = np.cumsum(counts) - counts  # in this piece
        members[np.repeat(free - before, counts) + np.arange(len(places))] = places[order] + start
        free += counts
    return members


def _numbering(
    present: NDArray[np.int64],
) -> Callable[[NDArray[np.int64]], NDArray[np.signedinteger[Any]]]:
    """Return what tells the places of labels in an ascending list, -1 where they are not in it."""
    if present[-1] < _MOST_COUNTED:
        table = np.full(
            int(present[-1]) + 2, -1, np.int32
        )  # the last one is for all that are larger
        table[present] = np.arange(len(present))
        return lambda labels: table[np.minimum(labels, len(table) - 1)]

    def searched(labels: NDArray[np.int64]) -> NDArray[np.signedinteger[Any]]:
        places = np.minimum(np.searchsorted(present, labels), len(present) - 1)
        return np.where(present[places] == labels, places, -1)

    return searched


def _again(whole: IndexedDataset, weights: dict[int, float], length: int) -> Balanced:
    """Return what was pickled, without reading the labels anew."""
    balanced = Balanced.__new__(Balanced)
    balanced.whole, balanced._weights, balanced._num_positions = whole, weights, length
    return balanced


def _check_datasets(datasets: Sequence[Dataset]) -> None:
    if not datasets:
        raise SelectionError("mix() got no datasets; give at least one")
    for dataset in datasets:
        if not hasattr(dataset, "fetch") or isinstance(dataset, str):
            raise SelectionError(
                f"mix() got {dataset!r}, which is not a dataset; give what readers.open_dataset(path) returns"
            )
        if len(dataset) == 0:
            raise SelectionError("mix() got a dataset without samples; leave it out")
        if getattr(dataset, "_is_mixture", False):
            raise SelectionError(
                "mix() got a mixture or a balanced dataset, which says itself how often each sample comes; mix "
                "all datasets at once, with weights multiplied"
            )


def _shares(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Return weights that are 1 together."""
    if len(weights) != count or not all(_is_number(weight) and weight > 0 for weight in weights):
        raise SelectionError(
            f"weights={list(weights)} are not allowed; give one number above 0 for each of the {count}"
        )
    if max(weights) > _LARGEST_RATIO * min(weights):
        raise SelectionError(
            f"weights go from {min(weights)} to {max(weights)}; none may be more than {_LARGEST_RATIO} times "
            f"another"
        )
    total = math.fsum(weights)
    # As plain numbers, for the text of NumPy's own depends on its version.
    return tuple(float(weight / total) for weight in weights)


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value)


def _checked_length(length: int | None, usual: int) -> int:
    if length is None:
        return usual
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise SelectionError(f"{length=} is not allowed; give the number of samples in an epoch")
    return int(length)


def _block_size(dataset: Dataset) -> int:
    return int(getattr(dataset, "block_size", 256))


def _merged_classes(
    datasets: Sequence[Dataset], labels: Literal["same", "offset"]
) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of all classes, and what is added to the labels of each dataset."""
    names = [tuple(dataset.class_names) for dataset in datasets]
    if labels == "offset":
        if not all(names):
            number = names.index(())
            raise SelectionError(
                f'mix(labels="offset") needs to know the classes of every dataset, but number {number} does '
                f"not name its classes; renumber them in the data"
            )
        offsets = list(accumulate(map(len, names), initial=0))[:-1]
        return tuple(name for own in names for name in own), offsets
    different = sorted({own for own in names if own})
    if len(different) > 1:
        first, second = (f"{', '.join(own[:4])} ({len(own)})" for own in different[:2])
        raise SelectionError(
            f"mix() got datasets with different classes, {first} and {second}, so that one number would mean "
            f'two classes; give labels="offset" to keep them apart, or rename the classes'
        )
    return (different[0] if different else ()), [0] * len(datasets)
