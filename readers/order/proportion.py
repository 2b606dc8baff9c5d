"""The order of groups of samples (datasets or classes) in fixed proportions, and the grouping of samples by class."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.labels.label_vector import LabelShape, described
from readers.order.interleaving import Interleaving, Phases
from readers.order.permutation import make_keys, mix_numbers, permute
from readers.order.shuffle import Order, checked_positions
from readers.sample import SelectionError

EpochWeights = tuple[tuple[int, tuple[float, ...]], ...]
"""Pairs of the epoch from which weights hold, ascending, and the weight of each group; 0 leaves a group out."""


class WeightChange(NamedTuple):
    """Weights, and the position in a run from which they hold.

    Attributes:
        epoch: The epoch, counted from 0.
        position: The position in this epoch.
        weights: The weights of all epochs; those of earlier epochs have no effect.
    """

    epoch: int
    position: int
    weights: EpochWeights


_INNER = 7  # purpose of the keys, so that other uses of a seed get others
_LARGEST_RATIO = 1_000_000  # of weights, whose shares are exact to 9 digits
_MOST_COUNTED = 1 << 24  # labels below this are counted in a table
_PIECE = 1 << 20  # samples


@dataclass(frozen=True, eq=False)
class ProportionalOrder:
    """The order of samples that belong to groups, in which each group comes in proportion to its weight.

    All epochs together are one endless sequence: an epoch continues where the last one stopped. Every section of the
    sequence has the groups in their proportions: exact to a sample or two if the section begins and ends at multiples of 64
    (of 2 to 4 times the number of groups, if there are many groups), and to a few samples elsewhere. All samples of a group
    come once before one of them comes again, each time in another order ("global", "block") or in the stored order ("none",
    with a regular sequence of groups).

    Attributes:
        length: Number of positions in an epoch.
        seed: Seed of the shuffle, >= 0.
        sizes: Number of samples in each group.
        weights: Weight of each group in epoch 0, > 0.
        members: Dataset index of every sample, group by group; None if the dataset itself holds group after group.
        orders: For "block", the order within each group; its epochs are the passes through the group. Else empty.
        shuffled: False if the shuffle is "none".
        later: Pairs of the epoch from which other weights hold, ascending, and these weights. A group with weight 0 is
            left out until it has another weight.
        changes: Changes of the weights in a run, ascending. From a change on, each group continues with its next sample;
            see `Phases`.
    """

    length: int
    seed: int
    sizes: NDArray[np.int64]
    weights: tuple[float, ...]
    members: NDArray[Any] | None = None
    orders: tuple[Order, ...] = ()
    shuffled: bool = True
    later: EpochWeights = ()
    changes: tuple[WeightChange, ...] = ()
    _starts: NDArray[np.int64] = field(init=False, repr=False)
    _groups: Interleaving | Phases = field(init=False, repr=False)

    def __post_init__(self) -> None:
        first = WeightChange(0, 0, ((0, self.weights), *self.later))
        groups = _phases_of(
            [(*change[:2], self._sequence(change.weights)) for change in (first, *self.changes)]
        )
        object.__setattr__(self, "_groups", groups)
        object.__setattr__(self, "_starts", np.cumsum(self.sizes) - self.sizes)

    def __len__(self) -> int:
        return self.length

    @property
    def name(self) -> str:
        """Text with the order within the groups; sizes and weights of groups are part of the dataset's fingerprint instead."""
        if self.orders:
            return f"mixed {', '.join(order.name for order in self.orders)}"
        return "mixed global" if self.shuffled else "mixed none"

    def places(
        self, epoch: int, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the dataset index at each position of an epoch, and the repeat of that index; see `AnyOrder.places`.

        Raises:
            IndexError: A position is outside the epoch.
        """
        positions = checked_positions(positions, self.length)
        if not positions.size:
            return positions.copy(), positions.copy()
        groups, counts, before = self._groups.locate(epoch, positions)
        cycles, turns = np.divmod(counts, self.sizes[groups])
        numbers = self._starts[groups] + self._inner(groups, cycles, turns)
        indices = numbers if self.members is None else self.members[numbers].astype(np.int64)
        return indices, cycles - before // self.sizes[groups]

    def _sequence(self, weights: EpochWeights) -> Interleaving | Phases:
        """Return the sequence of groups whose weights change with epochs only."""
        return _phases_of(
            [
                (epoch, 0, Interleaving(self.length, self.seed, shares, self.shuffled, epoch))
                for epoch, shares in weights
            ]
        )

    def _inner(
        self, groups: NDArray[np.int64], cycles: NDArray[np.int64], turns: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the place of each sample within its group, int64 [n]; places count the samples as they are stored.

        Args:
            groups: int64 [n], the group of each sample.
            cycles: int64 [n], number of earlier passes through the group.
            turns: int64 [n], position in the current pass.
        """
        if not self.shuffled:
            return turns
        if not self.orders:
            keys = make_keys(self.seed, 0, _INNER)
            return permute(turns, self.sizes[groups], keys, mix_numbers(cycles, groups))
        found = np.empty_like(turns)
        for group, cycle in {*zip(groups.tolist(), cycles.tolist(), strict=True)}:
            rows = (groups == group) & (cycles == cycle)
            found[rows] = self.orders[group].indices(cycle, turns[rows])
        return found


def _phases_of(
    phases: list[tuple[int, int, Interleaving | Phases]],
) -> Interleaving | Phases:
    return Phases(phases) if len(phases) > 1 else phases[0][2]


def seed_of_group(seed: int, group: int) -> int:
    """Return a seed for the order within a group, so that groups of equal size have different orders."""
    return int(make_keys(seed, group, _INNER)[0])


def checked_shares(
    weights: Sequence[float], count: int, *, zeros: bool = False
) -> tuple[float, ...]:
    """Return weights scaled to the sum 1.

    Args:
        weights: Relative frequencies.
        count: Required number of weights.
        zeros: Whether some weights may be 0.

    Raises:
        SelectionError: The number of weights differs, a weight is not allowed, or the largest is more than a million times
            the smallest.
    """
    numbers = len(weights) == count and all(is_number(weight) for weight in weights)
    if not numbers or min(weights) < 0 or (min(weights) == 0 and not zeros) or not any(weights):
        least = "from 0 (but not all 0)" if zeros else "above 0"
        raise SelectionError(
            f"weights={list(weights)} are not allowed; give one number {least} for each of the {count}"
        )
    least_weight = min(weight for weight in weights if weight)
    if max(weights) > _LARGEST_RATIO * least_weight:
        raise SelectionError(
            f"weights go from {least_weight} to {max(weights)}; none may be more than {_LARGEST_RATIO} times "
            f"another"
        )
    total = math.fsum(weights)
    # As plain numbers: the text of NumPy scalars depends on its version.
    return tuple(float(weight / total) for weight in weights)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, and not a bool."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value)


def checked_length(length: int | None, usual: int) -> int:
    """Return the number of samples in an epoch: `length`, or `usual` if `length` is None.

    Raises:
        SelectionError: `length` is not an integer of 1 or more.
    """
    if length is None:
        return usual
    if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
        raise SelectionError(f"{length=} is not allowed; give the number of samples in an epoch")
    return int(length)


def group_classes(
    labels: NDArray[np.int64], weights: Mapping[int, float]
) -> tuple[NDArray[Any], NDArray[np.int64], tuple[float, ...]]:
    """Return the indices of samples class by class, and the size and share of each class; without classes of weight 0.

    Args:
        labels: Class number of each sample, int64 [n].
        weights: Relative frequency of classes, by class number; 1 for classes that are missing here.

    Raises:
        SelectionError: A sample has no label, no sample has a class of `weights`, or all weights are 0.
    """
    if not len(labels) or labels.min() < 0:
        count = int((labels < 0).sum())
        raise SelectionError(
            f"balanced() needs a label for each sample, but {count} of {len(labels)} have none; leave them "
            f'out with where("label >= 0"), or label them'
        )
    present, sizes = _count(labels)
    missing = weights.keys() - set(present.tolist())
    if missing:
        raise SelectionError(
            f"balanced() has a weight for class {min(missing)}, of which there is no sample; leave it out"
        )
    of_class = np.array([float(weights.get(label, 1)) for label in present.tolist()])
    kept = of_class > 0
    if not kept.any():
        raise SelectionError("balanced() has the weight 0 for every class; give one of them more")
    shares = checked_shares(of_class[kept].tolist(), int(kept.sum()))
    return _grouped(labels, present[kept], sizes[kept]), sizes[kept].astype(np.int64), shares


def class_weights(
    weights: Mapping[int | str, float], class_names: Sequence[str]
) -> dict[int, float]:
    """Return the relative frequency of classes by class number.

    Args:
        weights: Relative frequency of classes, by class number or name.
        class_names: Name of each class number.

    Raises:
        SelectionError: A name is not among `class_names`, or a weight is negative or not a number.
    """
    found = {_class_number(name, class_names): weight for name, weight in weights.items()}
    for label, weight in found.items():
        if not is_number(weight) or weight < 0:
            raise SelectionError(
                f"balanced() has the weight {weight!r} for class {label}; give a number from 0"
            )
    return found


def _class_number(name: int | str, class_names: Sequence[str]) -> int:
    if not isinstance(name, str):
        return int(name)
    if name not in class_names:
        raise SelectionError(
            f"balanced() has a weight for the class {name!r}, which there is not; the data names "
            f"{few_of(class_names, 10) or 'no classes'}"
        )
    return list(class_names).index(name)


def require_classes(shape: LabelShape, method: str) -> None:
    """Check that the labels of a dataset are class numbers.

    Args:
        shape: Label shape of the dataset.
        method: Name of the method that needs class numbers, for the error.

    Raises:
        SelectionError: The labels are vectors.
    """
    if shape != ():
        raise SelectionError(
            f"{method}() asks for the class of each sample, but the labels are {described(shape)}, which are no classes; give "
            "where() a truth for each sample, or give the samples class numbers with with_labels()"
        )


def _count(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the labels that occur, ascending, and how often each occurs."""
    if labels.max() >= _MOST_COUNTED:
        return np.unique(labels, return_counts=True)
    sizes = np.bincount(labels)
    present = np.flatnonzero(sizes)
    return present, sizes[present]


def _grouped(
    labels: NDArray[np.int64], present: NDArray[np.int64], sizes: NDArray[np.int64]
) -> NDArray[Any]:
    """Return the indices of the samples with some labels, label by label, ascending within each label.

    The result is uint32, or int64 if there are more than 2**32 samples. Labels are sorted piece by piece, because sorting
    all at once takes thirty times the memory of the result.

    Args:
        labels: Label of each sample, int64 [n].
        present: The labels to group, ascending.
        sizes: Number of samples with each of these labels.
    """
    members = np.empty(int(sizes.sum()), np.uint32 if len(labels) <= 2**32 else np.int64)
    free = np.cumsum(sizes) - sizes  # where the next sample of each label goes
    small = np.uint16 if len(present) < 1 << 16 else np.int64  # NumPy sorts 16 bits by counting
    number_of = _numbering(present)
    for start in range(0, len(labels), _PIECE):
        piece = labels[start : start + _PIECE]
        numbers = number_of(piece)
        samples = np.flatnonzero(numbers >= 0)
        numbers = numbers[samples].astype(small)
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=len(present))
        before = np.cumsum(counts) - counts  # in this piece
        members[np.repeat(free - before, counts) + np.arange(len(samples))] = samples[order] + start
        free += counts
    return members


def _numbering(
    present: NDArray[np.int64],
) -> Callable[[NDArray[np.int64]], NDArray[np.signedinteger[Any]]]:
    """Return a function that maps an array of labels to their positions in `present`, -1 for labels that are not in it.

    Args:
        present: Labels in ascending order.
    """
    if present[-1] < _MOST_COUNTED:
        table = np.full(
            int(present[-1]) + 2, -1, np.int32
        )  # the last one is for all that are larger
        table[present] = np.arange(len(present))
        return lambda labels: table[np.minimum(labels, len(table) - 1)]

    def searched(labels: NDArray[np.int64]) -> NDArray[np.signedinteger[Any]]:
        numbers = np.minimum(np.searchsorted(present, labels), len(present) - 1)
        return np.where(present[numbers] == labels, numbers, -1)

    return searched
