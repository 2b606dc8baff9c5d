"""Samples in parts: a batch is split by part, and put together in the order that was asked for."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from readers.datasets.parts import PartsDataset, samples_in_block
from readers.sample import ColumnName, Sample


class Parts(PartsDataset):
    """Parts of 3, 0, 1 and 5 samples, which note how they are read."""

    fingerprint = "parts"

    def __init__(self) -> None:
        self._starts = np.array([0, 3, 3, 4, 9])
        self.read: list[tuple[int, list[int]]] = []

    def column(self, name: ColumnName) -> NDArray[np.int64]:  # noqa: ARG002
        """Return numbers that no test asks for."""
        return np.zeros(len(self), np.int64)

    def _fetch_part(self, number: int, indices: NDArray[np.int64]) -> Iterator[Sample]:
        self.read.append((number, indices.tolist()))
        for index in indices.tolist():
            yield Sample(index, f"{number}/{index}", {})


@pytest.mark.parametrize(
    ("indices", "read"),
    [
        ([8, 0, 3, 8, 2], [(0, [0, 2]), (2, [3]), (3, [8, 8])]),
        ([3], [(2, [3])]),
        ([], []),
    ],
)
def test_each_part_is_read_once(indices: list[int], read: list[tuple[int, list[int]]]) -> None:
    """Rows of a part ascend and repeat; samples come in the order of the indices."""
    dataset = Parts()
    samples = dataset.fetch(indices)

    assert [sample.index for sample in samples] == indices
    assert dataset.read == read


def test_block_sizes() -> None:
    """The median part that has samples; or about 8 MB, at least one sample and at most all."""
    assert (len(Parts()), Parts().block_size) == (9, 3)
    assert [samples_in_block(100, size) for size in (0, 100, 16 << 30, 80_000_000)] == [
        100,
        100,
        1,
        10,
    ]
