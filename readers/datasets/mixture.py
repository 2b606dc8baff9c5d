"""Join several datasets into one, with or without weights."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import Balanced, IndexedDataset, Subset
from readers.datasets.located import Located, Reads, merge
from readers.datasets.origin import Origin, origin_of, sources_of
from readers.fingerprint import fingerprint_of
from readers.labels.flip_pairs import FlipPairs
from readers.labels.label_vector import LabelShape, described, label_shape_of
from readers.order.proportion import (
    EpochWeights,
    ProportionalOrder,
    checked_length,
    checked_shares,
    seed_of_group,
)
from readers.order.shuffle import AnyOrder, Order, Shuffle, make_order
from readers.plural import counted
from readers.sample import (
    BadSample,
    ColumnName,
    Dataset,
    FieldTypes,
    Sample,
    SelectionError,
    checked_indices,
    sound,
)

_MAX_SHOWN = 3  # datasets, in a text


class Mixture(IndexedDataset):
    """Several datasets joined into one, optionally in fixed proportions; see `mix`.

    An index is the index of the sample in its dataset plus the lengths of the datasets before it.

    Attributes:
        datasets: The joined datasets.
        weights: Share of each dataset in epoch 0, with the sum 1; empty if each sample comes once an epoch.
        later_weights: Pairs of the epoch from which other weights hold, and these weights.

    Example:
        >>> both = mix([open_dataset("photos/"), open_dataset("more/")])
        >>> len(both), both.weights
        (48, ())
    """

    def __init__(
        self,
        datasets: Sequence[Dataset],
        weights: Sequence[float] | Mapping[int, Sequence[float]] | None = None,
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
        (_, self.weights), *later = _checked_weights(weights, len(self.datasets))
        self.later_weights = tuple(later)
        self._num_positions = checked_length(length, self._starts[-1])
        self._label_shape = _common_shape(self.datasets, labels)
        self._class_names, self._offsets = _merged_classes(self.datasets, labels)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        """Show the first datasets and their weights."""
        shown = [repr(dataset) for dataset in self.datasets[:_MAX_SHOWN]]
        if (more := len(self.datasets) - len(shown)) > 0:
            shown.append(f"and {more} more")
        weights = ", ".join(f"{weight:.3g}" for weight in self.weights[:_MAX_SHOWN])
        said = f", weights={weights}{', ...' * (more > 0)}" if weights else ""
        if self.later_weights:
            epochs = ", ".join(str(epoch) for epoch, _ in self.later_weights)
            said += f" and others from epoch {epochs}"
        # Before the datasets, because long texts are cut at their end.
        labels = ', labels="offset"' * any(self._offsets)
        return f"Mixture({counted(len(self), 'sample')}{labels}: {', '.join(shown)}{said})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits over the fingerprints of the datasets, their weights and the mapping of labels."""
        parts = [dataset.fingerprint for dataset in self.datasets]
        return fingerprint_of(
            f"mix {parts} {list(self.weights)} {self._num_positions} {self._offsets}",
            *(f" {epoch} {list(weights)}" for epoch, weights in self.later_weights),
        )

    @property
    def field_types(self) -> FieldTypes:
        """Field types that are the same in all datasets."""
        first, *others = [getattr(one, "field_types", {}) for one in self.datasets]
        return {
            name: kind
            for name, kind in first.items()
            if all(one.get(name) == kind for one in others)
        }

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """Keypoint names of the datasets that have some; empty if they differ."""
        found = {names for one in self.datasets if (names := getattr(one, "keypoint_names", ()))}
        return found.pop() if len(found) == 1 else ()

    @property
    def flip_pairs(self) -> FlipPairs | None:
        """Flip pairs of the datasets that have some; None if they differ, which a Loader refuses if it needs them."""
        found = {
            pairs
            for one in self.datasets
            if (pairs := getattr(one, "flip_pairs", None)) is not None
        }
        return found.pop() if len(found) == 1 else None

    @property
    def block_size(self) -> int:
        """The smallest block size of the datasets; in a mixture with weights, each dataset is shuffled with its own size."""
        return min(map(_block_size, self.datasets))

    @property
    def epoch_weights(self) -> EpochWeights:
        """Pairs of an epoch and the weights from that epoch on, beginning with epoch 0; empty without weights."""
        return ((0, self.weights), *self.later_weights) if self.weights else ()

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Return one number for every sample, int64 [len]; see `IndexedDataset.column`.

        Raises:
            SelectionError: One of the datasets has no columns, because it is not an `IndexedDataset`.
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
        """Read samples, with one call for each dataset; see `Dataset.fetch`."""
        own = checked_indices(indices, len(self))
        found: list[Any] = [None] * len(own)
        for number, rows, inner in by_dataset(self, np.array(own, np.int64)):
            fetched = self.datasets[number].fetch(inner)
            for row, sample in zip(rows.tolist(), fetched, strict=True):
                found[row] = self._renamed(sample, own[row], number)
        return found

    def sources(self) -> tuple[Dataset, ...]:
        """Return the sources of all joined datasets, each once."""
        found = [source for dataset in self.datasets for source in sources_of(dataset)]
        return tuple({id(source): source for source in found}.values())

    def origin(self, indices: NDArray[np.int64]) -> list[Origin]:
        return [
            part._replace(positions=rows[part.positions])
            for number, rows, inner in by_dataset(self, indices)
            for part in origin_of(self.datasets[number], inner)
        ]

    def locate(self, indices: NDArray[np.int64], reads: Reads) -> Located | None:
        """Return where images lie in files; None if one of the datasets cannot locate them."""
        own = np.array(checked_indices(indices, len(self)), np.int64)
        numbers = np.empty(len(own), np.int64)
        parts, every_row = [], []
        for number, rows, inner in [*by_dataset(self, own)] or [(0, own, own)]:
            numbers[rows] = number
            every_row.append(rows)
            # Of the class: a user's dataset may pass attributes on to one within it, which would answer for it.
            locate = getattr(type(self.datasets[number]), "locate", None)
            part = None if locate is None else locate(self.datasets[number], inner, reads)
            if part is None:
                return None
            labels = part.labels + np.where(part.labels < 0, 0, self._offsets[number])
            parts.append(replace(part, labels=labels))
        found = merge(parts, every_row)
        moved = found.changed(
            lambda row, sample: sound(self._renamed(sample, int(own[row]), int(numbers[row])))
        )
        return replace(
            moved, make_keys=lambda: list(map(self._key, found.make_keys(), numbers.tolist()))
        )

    def order(
        self, *, seed: int = 0, shuffle: Shuffle = "global", shuffle_window: int | None = None
    ) -> AnyOrder:
        """Return the order of the samples in every epoch; see `IndexedDataset.order`.

        With weights and "block", each dataset has its own open blocks, and shares in `shuffle_window` by its weight.
        """
        if not self.weights:
            return super().order(seed=seed, shuffle=shuffle, shuffle_window=shuffle_window)
        orders: list[Order] = []
        phases = [weights for _, weights in self.epoch_weights]
        if shuffle == "block":
            orders = [
                make_order(
                    len(dataset),
                    seed_of_group(seed, number),
                    "block",
                    block_size=_block_size(dataset),
                    shuffle_window=shuffle_window
                    and math.ceil(shuffle_window * max(weights[number] for weights in phases)),
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
            later=self.later_weights,
        )

    @property
    def _is_mixture(self) -> bool:
        return bool(self.weights)

    def _key(self, key: str, number: int) -> str:
        return key if self._names is None else f"{self._names[number]}/{key}"

    def _renamed(self, sample: Sample | BadSample, index: int, number: int) -> Sample | BadSample:
        key = self._key(sample.key, number)
        if isinstance(sample, BadSample):
            return replace(sample, index=index, key=key)
        label, offset = sample.label, self._offsets[number]
        if not isinstance(label, np.ndarray) and label >= 0:
            label += offset
        return replace(sample, index=index, key=key, label=label)


def mix(
    datasets: Sequence[Dataset],
    weights: Sequence[float] | Mapping[int, Sequence[float]] | None = None,
    *,
    length: int | None = None,
    names: Sequence[str] | None = None,
    labels: Literal["same", "offset"] = "same",
) -> Mixture:
    """Return one dataset that joins several.

    Args:
        datasets: Datasets, or objects with the interface of `readers.Dataset`.
        weights: Relative frequency of each dataset, which holds in every part of an epoch. All
            samples of a dataset come once, in a new order each time, before one of them comes again; this continues
            from epoch to epoch. A sample that comes again within an epoch is augmented differently. If None, every
            sample comes once an epoch, and all datasets are shuffled together. A dictionary gives weights from some
            epoch on, {0: [0.9, 0.1], 10: [0.5, 0.5]}, of which some may be 0; the order within a dataset
            continues when weights change.
        length: Number of samples in an epoch; None takes the sum of the lengths.
        names: Names of the datasets, which are put before the keys of their samples.
        labels: "same" keeps class numbers, for datasets with the same list of classes or without class names.
            "offset" appends the classes of each dataset to those of the datasets before it; all datasets must name
            their classes.

    Raises:
        SelectionError: The classes or labels of the datasets do not fit together, or an argument is not allowed.

    Example:
        >>> both = mix([open_dataset("photos/"), open_dataset("more/")], weights=[0.7, 0.3])
        >>> both.weights
        (0.7, 0.3)
    """
    return Mixture(datasets, weights, length=length, names=names, labels=labels)


def by_dataset(
    mixture: Mixture, indices: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield, for each dataset that has some of the samples, its number, the rows in `indices`, and the indices in it."""
    numbers = np.searchsorted(mixture._starts, indices, side="right") - 1
    for number in np.unique(numbers).tolist():
        rows = np.flatnonzero(numbers == number)
        yield number, rows, indices[rows] - mixture._starts[number]


def dataset_numbers(dataset: Dataset, indices: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return for each sample the position of its dataset among `Mixture.datasets`, int64 [n]; None without a mixture.

    Args:
        dataset: A mixture, a selection of one, or any other dataset.
        indices: int64 [n], indices in `dataset`.
    """
    if isinstance(dataset, Mixture):
        return np.searchsorted(dataset._starts, indices, side="right") - 1
    if isinstance(dataset, Subset):
        return dataset_numbers(dataset.whole, dataset.indices_in_whole(indices))
    return dataset_numbers(dataset.whole, indices) if isinstance(dataset, Balanced) else None


def with_epoch_weights(mixture: Mixture, epoch_weights: EpochWeights) -> Mixture:
    """Return a mixture of the same datasets, of the same length, with other weights.

    Args:
        mixture: A mixture with weights.
        epoch_weights: `Mixture.epoch_weights` of another mixture. They are taken without a change, because scaling them
            again to the sum 1 can change a last digit, and with it the fingerprint.

    Raises:
        SelectionError: The epochs or the weights are not allowed.
    """
    _checked_weights(dict(epoch_weights), len(mixture.datasets))
    other = copy.copy(mixture)
    vars(other).pop("fingerprint", None)  # a cached property
    (_, other.weights), *later = epoch_weights
    other.later_weights = tuple(later)
    return other


def _checked_weights(weights: Any, count: int) -> list[tuple[int, tuple[float, ...]]]:
    """Check weights; return pairs (first epoch, weights from that epoch on, which sum to 1), or [(0, ())] for None.

    Raises:
        SelectionError: The weights or the epochs are not allowed.
    """
    if weights is None:
        return [(0, ())]
    if not isinstance(weights, Mapping):
        return [(0, checked_shares(weights, count))]
    epochs = list(weights)
    whole = all(isinstance(one, int | np.integer) and type(one) is not bool for one in epochs)
    if not epochs or not whole or min(epochs) != 0:
        raise SelectionError(
            f"mix() has weights for the epochs {epochs}; give weights for epoch 0, and for whole numbers above it"
        )
    by_epoch = [
        (int(epoch), checked_shares(weights[epoch], count, zeros=True)) for epoch in sorted(epochs)
    ]
    for number in range(count):
        if not any(shares[number] for _, shares in by_epoch):
            raise SelectionError(
                f"mix() gives dataset {number} the weight 0 in every epoch; leave it out"
            )
    if len(by_epoch) == 1:
        return [(0, checked_shares(weights[epochs[0]], count))]
    return by_epoch


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


def _block_size(dataset: Dataset) -> int:
    return int(getattr(dataset, "block_size", 256))


def _common_shape(datasets: Sequence[Dataset], labels: Literal["same", "offset"]) -> LabelShape:
    """Return the shape of the labels of all datasets.

    Raises:
        SelectionError: Some datasets have class numbers and others vectors, or vectors of different lengths, or `labels` is
            "offset" and labels are vectors.
    """
    shapes = list(dict.fromkeys(map(label_shape_of, datasets)))
    if labels == "offset" and shapes != [()]:
        shape = next(shape for shape in shapes if shape != ())
        raise SelectionError(
            f'mix(labels="offset") moves class numbers, but the labels of a dataset are {described(shape)}; leave it out'
        )
    if len(shapes) > 1 and (() in shapes or None not in shapes):
        raise SelectionError(
            f"mix() got datasets whose labels are {described(shapes[0])} and {described(shapes[1])}; give all of them labels "
            "of one kind with with_labels()"
        )
    return shapes[0] if len(shapes) == 1 else None


def _merged_classes(
    datasets: Sequence[Dataset], labels: Literal["same", "offset"]
) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of all classes, and the offset added to the labels of each dataset."""
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
