"""Which dataset reads a sample of a selection or a mixture, and where the sample stands in it."""

import numpy as np
import pytest

from readers import ArrayDataset, Dataset, from_arrays, mix
from readers.datasets.origin import origin_of, sources_of


def images(count: int) -> ArrayDataset:
    dataset = from_arrays(np.zeros((count, 4, 4, 3), np.uint8), np.zeros(count, np.int64))
    assert isinstance(dataset, ArrayDataset)
    return dataset


def found(dataset: Dataset, indices: list[int]) -> list[tuple[Dataset, list[int], list[int]]]:
    parts = origin_of(dataset, np.array(indices, np.int64))
    return [(part.dataset, part.indices.tolist(), part.positions.tolist()) for part in parts]


def test_a_selection_of_a_mixture_of_selections() -> None:
    """Indices are those of the datasets that read, positions those of the indices that were asked for."""
    first, second = images(5), images(3)
    mixture = mix([first.take([4, 1]), second]).take([3, 1, 0, 2])

    assert found(mixture, [0, 1, 2, 3]) == [(first, [1, 4], [1, 2]), (second, [1, 0], [0, 3])]
    assert sources_of(mixture) == (first, second)


@pytest.mark.parametrize("change", ["balanced", "with_labels"])
def test_other_labels_and_frequencies_change_no_index(change: str) -> None:
    dataset = images(3)
    changed = dataset.balanced() if change == "balanced" else dataset.with_labels([1, 0, 1])

    assert found(changed, [2, 0]) == [(dataset, [2, 0], [0, 1])]


def test_a_dataset_in_two_parts_is_one_source() -> None:
    dataset = images(4)

    assert sources_of(mix([dataset.take(2), dataset.take(1)])) == (dataset,)


def test_a_class_of_its_own_reads_itself() -> None:
    """An attribute of the same name says nothing, such as one of a dataset that is wrapped."""

    class Wrapped:
        def __init__(self) -> None:
            self.origin, self.sources = "a file", ["a", "b"]

    wrapped = Wrapped()

    assert found(wrapped, [1]) == [(wrapped, [1], [0])]  # type: ignore[arg-type, comparison-overlap]
    assert sources_of(wrapped) == (wrapped,)  # type: ignore[arg-type, comparison-overlap]
