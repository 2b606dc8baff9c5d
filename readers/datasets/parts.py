"""Datasets whose samples lie in parts (row groups, record batches, shards), one part behind the other."""

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
    """Samples in parts. A batch is split by part, so that each part is read once; subclasses read one part.

    A subclass sets `_starts`, int64 [parts + 1]: the index of the first sample of each part, and the number of all samples.
    """

    _starts: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def block_size(self) -> int:
        """Samples of the median part that has any."""
        lengths = np.diff(self._starts)
        return max(1, int(np.median(lengths[lengths > 0])))

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """Read each part once that the batch touches; see `Dataset.fetch`."""
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
        """Return samples of one part.

        Args:
            number: Number of the part.
            indices: Indices of the samples in the dataset, ascending, repetitions allowed.
        """

    def _pool(self, numbers: Sequence[int]) -> Executor | None:
        """Return threads to read these parts with, None to read them one after another."""
        del numbers
        return None

    def _on_parts(
        self, work: Callable[..., None], numbers: Sequence[int], *arguments: Sequence[Any]
    ) -> None:
        """Call a function for each part with its number and its arguments, in threads if these pay."""
        pool = self._pool(numbers) if len(numbers) > 1 else None
        for _ in (pool.map if pool else map)(work, numbers, *arguments):
            pass

    def _bad_samples(self, start: int, stop: int) -> Iterator[BadSample]:
        """Read a range of samples, and yield those that cannot be read."""
        for first in range(start, stop, _VERIFIED_AT_ONCE):
            samples = self.fetch(range(first, min(first + _VERIFIED_AT_ONCE, stop)))
            yield from (sample for sample in samples if isinstance(sample, BadSample))


def samples_in_block(length: int, num_bytes: int) -> int:
    """Return how many samples have about `BLOCK_BYTES`, by the number and size of all samples."""
    return max(1, min(length, BLOCK_BYTES * length // max(1, num_bytes)))


def _split_by_part(
    rows: NDArray[np.int64], starts: NDArray[np.int64]
) -> tuple[list[int], list[NDArray[np.int64]]]:
    """Return the parts that hold some rows, ascending, and for each part the positions of its rows in `rows`.

    The rows of a part ascend.
    """
    if not len(rows):
        return [], []
    if len(rows) == 1:  # dataset[5]: without the rest, 15 us less
        return [int(np.searchsorted(starts, rows[0], "right")) - 1], [np.zeros(1, np.int64)]
    order = np.argsort(rows, kind="stable")
    numbers = np.searchsorted(starts, rows[order], "right") - 1
    borders = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    bounds = [0, *borders.tolist(), len(rows)]
    positions = [
        order[start:stop] for start, stop in pairwise(bounds)
    ]  # a third of np.split's time
    return numbers[bounds[:-1]].tolist(), positions
