"""The samples of each class, for datasets whose classes come in fixed proportions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.describe import few_of
from readers.label_vector import LabelShape, described
from readers.proportion import checked_shares, is_number
from readers.sample import SelectionError

_MOST_COUNTED = 1 << 24  # labels below this are counted in a table
_PIECE = 1 << 20  # samples


def group_classes(
    labels: NDArray[np.int64], weights: Mapping[int, float]
) -> tuple[NDArray[Any], NDArray[np.int64], tuple[float, ...]]:
    """Return the samples class by class, the size and share of each class, without classes of weight 0.

    Args:
        labels: Label of each sample, int64 [n].
        weights: Relative frequency of each class, 1 by default.

    Raises:
        SelectionError: A sample has no label, or there is no such class.
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
    """Return relative frequencies by class number.

    Args:
        weights: Relative frequency of each class, by number or name.
        class_names: Name of each class number.

    Raises:
        SelectionError: There is no such class, or a weight is no number from 0.
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
    """Refuse to select by classes where labels are vectors.

    Raises:
        SelectionError: They are.
    """
    if shape != ():
        raise SelectionError(
            f"{method}() asks for the class of each sample, but the labels are {described(shape)}, which are no classes; give "
            "where() a truth for each sample, or give the samples class numbers with with_labels()"
        )


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
    """Return the samples of some labels, label by label, each ascending: uint32, int64 where that is too small.

    A piece at a time: sorting all at once takes thirty times the memory of the result.
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
    """Return what tells the number of each label in an ascending list, -1 where it is not in it."""
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
