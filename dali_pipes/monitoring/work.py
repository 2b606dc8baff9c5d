"""What a thread works on, put into words only if somebody asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dali_pipes.steps.schedule import Plan
from readers.dataset import IndexedDataset

_NUM_NAMED = 3


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a step.

    Attributes:
        plan: The step.
        source: The names of the samples, "" where a row is lost; or the dataset that they are read from.
        indices: Where they stand in that dataset; None if `source` holds names.
    """

    plan: Plan
    source: Any
    indices: Sequence[int] | NDArray[np.int64] | None = None

    def keys(self) -> list[str]:
        """The names of the samples, as far as they are known without reading: else their indices."""
        if self.indices is None:
            return [name for name in self.source if name]
        return _known_keys(self.source, self.indices)

    def __str__(self) -> str:
        keys = self.keys()
        more = f" and {len(keys) - _NUM_NAMED:,} more" if len(keys) > _NUM_NAMED else ""
        return f"step {self.plan.step}: {', '.join(keys[:_NUM_NAMED])}{more}"


def _known_keys(dataset: Any, indices: Sequence[int] | NDArray[np.int64]) -> list[str]:
    """Names of samples that a dataset has without reading them, which may be what takes so long; else their numbers."""
    numbers = np.asarray(indices).tolist()
    while (whole := getattr(dataset, "whole", None)) is not None:
        if hasattr(dataset, "indices_in_whole"):
            numbers = dataset.indices_in_whole(numbers).tolist()
        dataset = whole
    if not isinstance(dataset, IndexedDataset) or type(dataset).keys is IndexedDataset.keys:
        return [f"sample {index}" for index in indices]
    keys = dataset.keys()
    return [keys[number] for number in numbers]
