"""A dataset in memory, of the package's own kind, which other processes can import."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from readers.datasets.dataset import IndexedDataset
from readers.sample import BadSample, ColumnName, Sample, checked_indices


class SmallDataset(IndexedDataset):
    """Images that are given as bytes; an empty one is a bad sample."""

    def __init__(
        self,
        images: Sequence[bytes],
        labels: Sequence[int],
        class_names: tuple[str, ...] = (),
        *,
        name: str = "small",
        block_size: int = 4,
    ) -> None:
        self.images, self.labels, self.name = list(images), list(labels), name
        self._class_names, self._block_size = class_names, block_size
        self.fetched: list[int] = []
        self.columns_read: list[str] = []

    def __len__(self) -> int:
        return len(self.images)

    @property
    def fingerprint(self) -> str:
        """Its name will do."""
        return self.name

    @property
    def class_names(self) -> tuple[str, ...]:
        """As given."""
        return self._class_names

    @property
    def block_size(self) -> int:
        """As given."""
        return self._block_size

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Labels as given, heights of 100 + index, widths of 200, and real numbers of bytes."""
        self.columns_read.append(name)
        count = len(self)
        columns = {
            "label": self.labels,
            "height": range(100, 100 + count),
            "width": [200] * count,
            "num_bytes": [len(image) for image in self.images],
        }
        return np.array(columns[name], np.int64)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """The images and labels as given."""
        self.fetched += checked_indices(indices, len(self))
        return [
            Sample(index, f"{self.name}/{index}", {"jpg": self.images[index]}, self.labels[index])
            if self.images[index]
            else BadSample(index, f"{self.name}/{index}", "read", "it is empty")
            for index in checked_indices(indices, len(self))
        ]


class HugeDataset(IndexedDataset):
    """As many samples as wanted, all of one image, labelled by what is left over from a division by 10."""

    def __repr__(self) -> str:
        return f"HugeDataset({len(self)})"

    def __init__(self, length: int, image: bytes = b"") -> None:
        self.length, self.image = length, image

    def __len__(self) -> int:
        return self.length

    @property
    def fingerprint(self) -> str:
        """Its length will do."""
        return f"huge {self.length}"

    def column(self, name: ColumnName) -> NDArray[np.int64]:
        """Labels; nothing else is known."""
        if name == "label":
            return np.arange(self.length) % 10
        return np.full(self.length, -1 if name == "num_bytes" else 0)

    def fetch(self, indices: Sequence[int] | NDArray[np.int64]) -> list[Sample | BadSample]:
        """The image, again and again."""
        return [
            Sample(index, str(index), {"jpg": self.image}, index % 10)
            for index in checked_indices(indices, len(self))
        ]


def make_small(
    jpeg: Callable[..., bytes], count: int, num_classes: int = 3, name: str = "small"
) -> SmallDataset:
    """Return a dataset of pictures of several sizes, whose classes take turns."""
    images = [jpeg(40 + number % 7, 48 - number % 5, seed=number) for number in range(count)]
    labels = [number % num_classes for number in range(count)]
    return SmallDataset(images, labels, name=name)
