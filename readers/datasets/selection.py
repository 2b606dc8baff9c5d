"""Select samples of a dataset by a condition, by indices or by shares."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from readers.datasets.expression import evaluate
from readers.order.permutation import make_keys, permute, scale
from readers.sample import ColumnName, SelectionError, SourceError

_GROUP = 256  # neighbours that a split divides among its parts
_SPLIT = 5  # purpose of the keys, so that other uses of a seed get others
_MOST = 2**41  # samples that can be divided exactly


class Selection(Protocol):
    """The indices, in an original dataset, of the samples of a subset; picklable."""

    def __len__(self) -> int: ...

    def in_whole(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices in the original dataset, int64 [n], given indices in the subset."""

    @property
    def identity(self) -> str:
        """Text that identifies the selected samples and their order, for fingerprints."""

    @property
    def density(self) -> float:
        """Share of the samples of a block of the original dataset that are selected, 0 to 1.

        It is 0 if neighbours in the original dataset are not neighbours in the subset.
        """


@dataclass(frozen=True)
class RangeSelection:
    """The selection of the samples of a `range`."""

    range: range

    def __len__(self) -> int:
        return len(self.range)

    def in_whole(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.range.start + indices * self.range.step

    @property
    def identity(self) -> str:
        return f"range {self.range[0]} {self.range[-1]} {len(self.range)}"

    @property
    def density(self) -> float:
        return 1 / abs(self.range.step)


@dataclass(frozen=True, eq=False)
class IndexSelection:
    """The selection of the samples at a list of indices: uint32 [n], or int64 [n] if the dataset is longer than 2**32."""

    list: NDArray[Any]

    def __len__(self) -> int:
        return len(self.list)

    def in_whole(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.list[indices].astype(np.int64)

    @cached_property
    def identity(self) -> str:
        digest = hashlib.sha256()
        for piece in self._pieces():
            digest.update(piece.astype("<i8").tobytes())
        return f"list {digest.hexdigest()}"

    @cached_property
    def density(self) -> float:
        """Share of the range from the first to the last index that is selected; 0 if the indices do not ascend."""
        last = -1
        for piece in self._pieces():
            ends = piece.astype(np.int64)
            if ends[0] < last or (np.diff(ends) < 0).any():
                return 0.0
            last = int(ends[-1])
        return min(1.0, len(self.list) / (last - int(self.list[0]) + 1))

    def _pieces(self) -> Iterator[NDArray[Any]]:
        size = 1 << 20
        return (self.list[start : start + size] for start in range(0, len(self.list), size))


@dataclass(frozen=True)
class Share:
    """The selection of one part of a dataset that is divided at random into parts.

    Every group of 256 neighbours is permuted. Then the first part takes its samples at even distances, the second
    part from the remaining ones, and so on. The seed decides where groups begin; else the last group, which is shorter,
    would be divided in the same way for every seed.

    Attributes:
        length: Number of samples in the original dataset.
        sizes: Number of samples in each part.
        number: Index of this part in `sizes`.
        seed: Seed of the division.
    """

    length: int
    sizes: tuple[int, ...]
    number: int
    seed: int

    def __len__(self) -> int:
        return self.sizes[self.number]

    def in_whole(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        lefts = [self.length]  # before each part takes its own
        for size in self.sizes[: self.number]:
            lefts.append(lefts[-1] - size)
        # Of n samples m are taken so that of the first p there are p * m // n; this is the inverse.
        found = scale(indices + 1, lefts[-1], len(self), round_up=True) - 1
        for before, after in zip(reversed(lefts[:-1]), reversed(lefts[1:]), strict=True):
            found = scale(found, before, after)
        groups, within = np.divmod(found, _GROUP)
        sizes = np.minimum(_GROUP, self.length - groups * _GROUP)
        keys = make_keys(self.seed, 0, _SPLIT)
        found = groups * _GROUP + permute(within, sizes, keys, groups)
        return (found + int(keys[0] % np.uint64(self.length))) % self.length

    @property
    def identity(self) -> str:
        return f"share {self.number} of {list(self.sizes)} by {self.seed}"

    @property
    def density(self) -> float:
        return len(self) / self.length


def pick_where(
    condition: str | NDArray[np.bool_] | Sequence[bool],
    length: int,
    column: Callable[[ColumnName], NDArray[np.int64]],
    class_names: Sequence[str],
) -> Selection:
    """Return the selection of the samples that fulfil a condition.

    Args:
        condition: The condition as text, or bool [length]; see `readers.IndexedDataset.where`.
        length: Number of samples in the original dataset.
        column: Returns a column of the original dataset by its name, int64 [length].
        class_names: Class names of the original dataset.

    Raises:
        SelectionError: The condition is not valid, or no sample fulfils it.
    """
    if isinstance(condition, str):
        truths = evaluate(condition, column, class_names)
        name = f"the condition {condition!r}"
    else:
        truths, name = np.asarray(condition), "the condition"
        if truths.dtype != bool or truths.shape != (length,):
            raise SelectionError(
                f"where() takes text or a truth for each of the {length} samples, got {truths.dtype} "
                f"{list(truths.shape)}; indices are for take()"
            )
    found = np.flatnonzero(truths)
    if not len(found):
        raise SelectionError(
            f"{name} holds for none of the {length} samples; labels are -1, heights and widths 0 and "
            f"num_bytes -1 where the data does not say them"
        )
    return IndexSelection(_small(found, length))


def pick_kept(keeps: NDArray[np.bool_], none_kept: str) -> Selection:
    """Return the selection of the samples that a format's own metadata keeps.

    Args:
        keeps: Whether each sample is kept, bool [length].
        none_kept: The error if it keeps none.

    Raises:
        SourceError: No sample is kept.
    """
    if keeps.all():
        return RangeSelection(range(len(keeps)))
    if not keeps.any():
        raise SourceError(none_kept)
    return pick_taken(np.flatnonzero(keeps), len(keeps))


def pick_taken(
    which: int | slice | range | Sequence[int] | NDArray[np.int64], length: int
) -> Selection:
    """Return the selection of the first n samples, or of a slice, a range or a list of indices.

    Args:
        which: A number of samples, a slice, a range, or a list of indices; see `readers.IndexedDataset.take`.
        length: Number of samples in the original dataset.

    Raises:
        SelectionError: `which` selects no sample, or an index is outside the dataset.
    """
    if isinstance(which, slice):
        which = range(*which.indices(length))
    if isinstance(which, int | np.integer) and not isinstance(which, bool):
        if not 1 <= which <= length:
            raise SelectionError(f"take({which}) is not possible; there are {length} samples")
        which = range(int(which))
    if isinstance(which, range):
        if not which or min(which[0], which[-1]) < 0 or max(which[0], which[-1]) >= length:
            raise SelectionError(
                f"take({which}) must name at least one sample, of 0 <= index < {length}"
            )
        return RangeSelection(which)
    indices = np.asarray(which)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not indices.size:
        raise SelectionError(
            f"take() takes a number of samples, a slice, a range, or a list of at least one index, got "
            f"{indices.dtype} {list(indices.shape)}; truths are for where()"
        )
    if indices.min() < 0 or indices.max() >= length:
        raise SelectionError(
            f"take() has an index outside of 0 <= index < {length}: they go from {indices.min()} to "
            f"{indices.max()}"
        )
    return IndexSelection(_small(indices, length))


def pick_shares(shares: Sequence[float], seed: int, length: int) -> list[Selection]:
    """Return one selection for each part of a dataset that is divided at random.

    Args:
        shares: Sizes of the parts, as fractions or as counts of samples; see `readers.IndexedDataset.split`.
        seed: Seed of the division, >= 0.
        length: Number of samples in the original dataset.

    Raises:
        SelectionError: The seed or the shares are not allowed, or a part gets no sample.
    """
    if not isinstance(seed, int) or seed < 0:
        raise SelectionError(f"split() has seed={seed!r}; give a whole number from 0")
    sizes = _sizes_of(shares, length)
    if sizes is None or min(sizes, default=0) < 1 or sum(sizes) > length:
        given = ", ".join(map(str, shares))
        raise SelectionError(
            f"split({given}) of {length} samples is not possible{f' (sizes {sizes})' if sizes else ''}; give "
            f"shares of at most 1 together, or numbers of samples, so that each part gets a sample"
        )
    if length > _MOST:
        raise SelectionError(f"split() divides at most {_MOST} samples, got {length}; take() some")
    return [Share(length, tuple(sizes), number, seed) for number in range(len(sizes))]


def _sizes_of(shares: Sequence[float], length: int) -> list[int] | None:
    """Return the number of samples in each part; None if the shares are neither counts nor fractions with a sum up to 1."""
    if not all(isinstance(share, int | float | np.number) for share in shares):
        return None
    if all(isinstance(share, int | np.integer) for share in shares):
        return [int(share) for share in shares]
    if not all(0 < share <= 1 for share in shares):
        return None
    exact = [Fraction(float(share)).limit_denominator(10**9) for share in shares]
    if sum(exact) > 1:
        return None
    # The ends of the parts are rounded, not their sizes, so that shares with the sum 1 take all samples.
    ends = [int(sum(exact[: number + 1]) * length + Fraction(1, 2)) for number in range(len(exact))]
    return [stop - start for start, stop in zip([0, *ends], ends, strict=False)]


def _small(indices: NDArray[Any], length: int) -> NDArray[Any]:
    return indices.astype(np.uint32 if length <= 2**32 else np.int64)
