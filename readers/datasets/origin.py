"""Which datasets read the samples of selections and mixtures."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.sample import Dataset


class Origin(NamedTuple):
    """Some of the samples that were asked for, which one dataset reads.

    Attributes:
        dataset: The dataset, which is neither a selection nor a mixture.
        indices: int64 [m], the indices of the samples in it.
        positions: int64 [m], their positions among the indices that were asked for.
    """

    dataset: Dataset
    indices: NDArray[np.int64]
    positions: NDArray[np.int64]


def origin_of(dataset: Dataset, indices: NDArray[np.int64]) -> list[Origin]:
    """Return `FetchedDataset.origin` of any dataset, also of a user's own class.

    Args:
        dataset: Any dataset.
        indices: int64 [n], indices in it.
    """
    method = _method_of(dataset, "origin")
    if method is None:
        return [Origin(dataset, indices, np.arange(len(indices)))]
    return method(dataset, indices)  # type: ignore[no-any-return]


def sources_of(dataset: Dataset) -> tuple[Dataset, ...]:
    """Return `FetchedDataset.sources` of any dataset, also of a user's own class."""
    method = _method_of(dataset, "sources")
    return (dataset,) if method is None else method(dataset)


def _method_of(dataset: Dataset, name: str) -> Any:
    # Of the class: a user's dataset may have an attribute of this name, or pass attributes on to a dataset within it.
    return getattr(type(dataset), name, None)
