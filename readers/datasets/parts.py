"""Datasets that consist of consecutive parts, such as row groups, record batches or shards."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.sample import BadSample, Sample, checked_indices

BLOCK_BYTES = 8_000_000
"""Neighbouring samples that are read together for one block: a large read even from an object store."""
_VERIFIED_AT_ONCE = 256  # samples, so that few are in memory


class PartsDataset(IndexedDataset):
    """Base class of datasets that consist of consecutive parts; `fetch` reads each part of a batch once.

    A subclass reads samples of one part, in `_fetch_part`, and sets `_starts`, int64 [parts + 1]: the index of the first
    sample of each part, followed by the number of all samples.
    """

    _starts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def block_size(self) -> int:
        """Median number of samples in a part, without empty parts."""
        lengths = np.diff(self._starts)
        return max(1, int(np.median(lengths[lengths > 0])))

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read samples, each part once; see `Dataset.fetch`."""
        wanted = np.array(checked_indices(indices, len(self)), np.int64)
        result: list[Any] = [None] * len(wanted)

        def read(number: int, positions: NDArray[np.int64]) -> None:
            samples = self._fetch_part(number, wanted[positions])
            for position, sample in zip(positions.tolist(), samples, strict=True):
                result[position] = sample

        numbers, positions = _split_by_part(wanted, self._starts)
        self._on_parts(read, numbers, positions)
        return result

    @abstractmethod
    def _fetch_part(self, number: int, indices: NDArray[np.int64]) -> Iterable[Sample | BadSample]:
        """Return samples of one part, in the order of `indices`.

        Args:
            number: Index of the part, from 0.
            indices: Indices of the samples in the whole dataset, ascending, repetitions allowed.
        """

    def _pool(self, numbers: Sequence[int]) -> Executor | None:
        """Return a thread pool in which to read the parts with these indices; None to read one part after another."""
        del numbers
        return None

    def _on_parts(
        self, work: Callable[..., None], numbers: Sequence[int], *arguments: Sequence[Any]
    ) -> None:
        """Call a function once for each part, in the threads of `_pool` if there are any.

        Args:
            work: Gets the index of a part, and the element for this part of each of `arguments`.
            numbers: Indices of the parts.
            arguments: Sequences with one element for each part.
        """
        pool = self._pool(numbers) if len(numbers) > 1 else None
        for _ in (pool.map if pool else map)(work, numbers, *arguments):
            pass

    def _bad_samples(self, start: int, stop: int) -> Iterator[BadSample]:
        """Read a range of samples, and yield those that cannot be read."""
        for first in range(start, stop, _VERIFIED_AT_ONCE):
            samples = self.fetch(range(first, min(first + _VERIFIED_AT_ONCE, stop)))
            yield from (sample for sample in samples if isinstance(sample, BadSample))


def samples_in_block(length: int, num_bytes: int) -> int:
    """Return how many samples of average size have about `BLOCK_BYTES` together, at least 1.

    Args:
        length: Number of samples in the dataset.
        num_bytes: Size of all samples together.
    """
    return max(1, min(length, BLOCK_BYTES * length // max(1, num_bytes)))


def _split_by_part(
    rows: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[list[int], list[NDArray[np.int64]]]:
    """Group rows by part: return the indices of the parts that hold rows, ascending, and the rows of each part.

    Args:
        rows: Indices of rows in the dataset, in any order.
        starts: Index of the first row of each part, and the number of all rows.

    Returns:
        Indices of parts; and for each of these parts, the positions in `rows` of its rows, sorted by row.
    """
    if not len(rows):
        return [], []
    if len(rows) == 1:  # dataset[5]: without the rest, 15 us less
        return [int(np.searchsorted(starts, rows[0], "right")) - 1], [np.zeros(1, np.int64)]
    order = np.argsort(rows, kind="stable")
    numbers = np.searchsorted(starts, rows[order], "right") - 1
    borders = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    bounds = [0, *borders.tolist(), len(rows)]
    # A third of np.split's time.
    positions = [order[start:stop] for start, stop in pairwise(bounds)]
    return numbers[bounds[:-1]].tolist(), positions
