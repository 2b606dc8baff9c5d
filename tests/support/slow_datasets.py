"""Datasets that are slow, or stop for a while, for tests of who is late and what hangs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from readers import BadSample, Dataset, Sample


class Repeated:
    """A small dataset many times over, whose fetch may be held up.

    Args:
        dataset: What is repeated.
        length: How many samples it has.
        hold_up: Gets the indices of each fetch before it is made.
        path: What the fetch calls its file.
    """

    def __init__(
        self,
        dataset: Dataset,
        length: int,
        hold_up: Callable[[list[int]], None] = lambda _: None,
        path: str = "",
    ) -> None:
        self._dataset, self._length, self._hold_up, self._path = dataset, length, hold_up, path
        self.fingerprint = f"{dataset.fingerprint} x {length}"
        self.class_names = ()

    def __len__(self) -> int:
        return self._length

    def column(self, name: Any) -> Any:
        """A column of the dataset, repeated."""
        return np.resize(self._dataset.column(name), self._length)

    def fetch(self, indices: Sequence[int]) -> list[Sample | BadSample]:
        """Samples of the dataset, with indices of their own."""
        path = self._path  # where its thread is, for who looks at it
        self._hold_up([int(index) for index in indices])
        del path
        inner = [int(index) % len(self._dataset) for index in indices]
        found = self._dataset.fetch(inner)
        return [replace(one, index=int(index)) for one, index in zip(found, indices, strict=True)]


def slow_fetch(seconds: float) -> Callable[[list[int]], None]:
    """Hold up every fetch for so long."""
    return lambda _: time.sleep(seconds)


def hang_at(index: int, until: Callable[[], Any]) -> Callable[[list[int]], None]:
    """Hold up the fetch of one sample until a function returns."""
    return lambda indices: until() if index in indices else None
