"""Where the samples of a dataset come from: through selections and mixtures to the datasets that read them."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.dataset import Balanced, Subset
from readers.mixture import Mixture
from readers.sample import Dataset

Indices = NDArray[np.int64]


class Origin(NamedTuple):
    """Some of the samples that were asked for, which one dataset reads.

    Attributes:
        dataset: It is neither a selection nor a mixture.
        indices: int64 [m], their places in it.
        positions: int64 [m], their places among those that were asked for.
    """

    dataset: Dataset
    indices: Indices
    positions: Indices


def origins(dataset: Dataset, indices: Indices) -> Iterator[Origin]:
    """Yield where samples come from, a part for each dataset that reads some of them.

    Args:
        dataset: Any dataset.
        indices: int64 [n], places in it.
    """
    yield from _origins(dataset, indices, np.arange(len(indices)))


def leaves(dataset: Dataset) -> list[Dataset]:
    """The datasets that read the samples of a dataset, each once."""
    if isinstance(dataset, Subset | Balanced):
        return leaves(dataset.whole)
    if isinstance(dataset, Mixture):
        found = [leaf for one in dataset.datasets for leaf in leaves(one)]
        return list({id(leaf): leaf for leaf in found}.values())
    return [dataset]


def _origins(dataset: Dataset, indices: Indices, positions: Indices) -> Iterator[Origin]:
    if isinstance(dataset, Subset):
        yield from _origins(dataset.whole, dataset.indices_in_whole(indices), positions)
    elif isinstance(dataset, Balanced):
        yield from _origins(dataset.whole, indices, positions)
    elif isinstance(dataset, Mixture):
        starts = np.cumsum([0, *map(len, dataset.datasets)])
        numbers = np.searchsorted(starts, indices, side="right") - 1
        for number in np.unique(numbers).tolist():
            own = numbers == number
            part = dataset.datasets[number]
            yield from _origins(part, indices[own] - starts[number], positions[own])
    else:
        yield Origin(dataset, indices, positions)
