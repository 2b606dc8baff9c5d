"""Describe the samples that a thread works on, but only when a message needs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.errors import first_of
from dali_pipes.steps.schedule import Plan
from readers.datasets.dataset import IndexedDataset


@dataclass(frozen=True, slots=True)
class Rows:
    """Names the samples of some rows of a step; `str` describes them.

    Attributes:
        plan: The step.
        source: Keys of the samples, "" for a row without a sample; or the dataset from which the samples are read.
        indices: Indices of the samples in that dataset; None if `source` holds keys.
    """

    plan: Plan
    source: Any
    indices: Sequence[int] | NDArray[np.int64] | None = None

    def keys(self) -> list[str]:
        """Return the keys of the samples that are known without reading, else their indices."""
        if self.indices is None:
            return [name for name in self.source if name]
        return _known_keys(self.source, self.indices)

    def __str__(self) -> str:
        return f"step {self.plan.step}: {first_of(self.keys())}"


def _known_keys(dataset: Any, indices: Sequence[int] | NDArray[np.int64]) -> list[str]:
    """Return the samples' keys if the dataset knows them without reading (which may hang), else their indices."""
    numbers = np.asarray(indices).tolist()
    while (unsplit := getattr(dataset, "whole", None)) is not None:
        if hasattr(dataset, "indices_in_whole"):
            numbers = dataset.indices_in_whole(numbers).tolist()
        dataset = unsplit
    if not isinstance(dataset, IndexedDataset) or type(dataset).keys is IndexedDataset.keys:
        return [f"sample {index}" for index in indices]
    keys = dataset.keys()
    return [keys[number] for number in numbers]
