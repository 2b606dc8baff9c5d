"""Find the datasets that read the samples of selections and mixtures."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import Dataset


class Origin(NamedTuple):
    """The part of some requested samples that is read by one dataset.

    Attributes:
        dataset: The dataset that reads the samples; it is neither a selection nor a mixture.
        indices: int64 [m], the indices of the samples in `dataset`.
        positions: int64 [m], for each of these samples, its place among the requested indices.
    """

    dataset: Dataset
    indices: NDArray[np.int64]
    positions: NDArray[np.int64]


def origin_of(dataset: Dataset, indices: NDArray[np.int64]) -> list[Origin]:
    """Return the datasets that read some samples, and the indices in these; works for any class of dataset.

    A dataset without a method `FetchedDataset.origin`, such as one of a user's own class, reads its samples itself.

    Args:
        dataset: Any dataset.
        indices: int64 [n], indices of the requested samples in `dataset`.
    """
    method = _method_of(dataset, "origin")
    if method is None:
        return [Origin(dataset, indices, np.arange(len(indices)))]
    return method(dataset, indices)  # type: ignore[no-any-return]


def sources_of(dataset: Dataset) -> tuple[Dataset, ...]:
    """Return the datasets that read the samples of `dataset`, each once; works for any class of dataset.

    A dataset without a method `FetchedDataset.sources`, such as one of a user's own class, is its own source.
    """
    method = _method_of(dataset, "sources")
    return (dataset,) if method is None else method(dataset)


def _method_of(dataset: Dataset, name: str) -> Any:
    # Of the class: a user's dataset may have an attribute of this name, or pass attributes on to a dataset within it.
    return getattr(type(dataset), name, None)
