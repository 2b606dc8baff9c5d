"""The checkpoints of all samples of a dataset, wherever they lie, also through selections and mixtures."""

import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.datasets.origin import origin_of, sources_of
from readers.jpeg_seek_points.checkpoint_file import CheckpointFile, Opened
from readers.jpeg_seek_points.layout import Entry
from readers.jpeg_seek_points.locations import CacheFile, head_of, open_beside
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.sample import Dataset

_MOST_OPEN = 1024
_NO_FILE = -1  # in place of a descriptor, which is never negative


class DatasetCheckpoints:
    """Finds what is known of the JPEGs of a dataset, and keeps what is found; any thread may ask.

    Two kinds of files are looked into. Beside a file of many samples (a tar, a Parquet file) may lie
    ``NAME.gpuaug-checkpoints``, which `gpu-aug index --checkpoints` and `gpu-aug pack --checkpoints` write whole. What
    is not there is in the cache folder, in one file for each dataset; see
    `readers.jpeg_seek_points.locations`. Selections and mixtures share the files of what they are made of.

    A verdict and rows count only for an image with the digest that they were found with.

    Args:
        dataset: Any dataset.
        version: Version of the rows and verdicts.
        limit_bytes: The largest size of a file in the cache folder; None is as `readers.jpeg_seek_points.locations` tells.
    """

    def __init__(self, dataset: Dataset, version: int, limit_bytes: int | None = None) -> None:
        self._dataset = dataset
        self._single = sources_of(dataset)[0] is dataset
        self._version, self._limit_bytes = version, limit_bytes
        self._leaves: dict[int, _Leaf] = {}
        self._making = threading.Lock()

    @property
    def writes(self) -> bool:
        """Whether something that is found can still be kept."""
        return all(leaf.cache.writes for leaf in list(self._leaves.values()))

    def places(self, indices: NDArray[np.int64]) -> "Places":
        """Return where something may be known of some images.

        Args:
            indices: Places in the dataset.
        """
        found, held = [np.empty((0, 4), np.int64)], list[Opened]()
        for leaf, own, positions in self._located(np.asarray(indices, np.int64)):
            found += leaf.places(own, positions, held)
        return Places(np.concatenate(found), held)

    def keep(self, entries: Sequence[Entry]) -> None:
        """Remember what was found, as far as there is room.

        Args:
            entries: Their numbers are places in the dataset.
        """
        wanted = np.array([entry.number for entry in entries], np.int64)
        for leaf, own, positions in self._located(wanted):
            leaf.cache.keep(
                [
                    entries[position]._replace(number=index)
                    for index, position in zip(own.tolist(), positions.tolist(), strict=True)
                ]
            )

    def count_known(self) -> int:
        """Of how many samples something is kept, as far as files tell without a look at the images."""
        count = 0
        for origin in origin_of(self._dataset, np.arange(len(self._dataset))):
            count += int(self._leaf(origin.dataset).known()[origin.indices].sum())
        return count

    def _located(
        self, indices: NDArray[np.int64]
    ) -> "list[tuple[_Leaf, NDArray[np.int64], NDArray[np.int64]]]":
        if self._single:
            return [(self._leaf(self._dataset), indices, np.arange(len(indices)))]
        return [
            (self._leaf(origin.dataset), origin.indices, origin.positions)
            for origin in origin_of(self._dataset, indices)
        ]

    def _leaf(self, dataset: Dataset) -> "_Leaf":
        key = id(dataset)  # which lives as long as the selection that holds it
        if (found := self._leaves.get(key)) is None:
            with self._making:
                if (found := self._leaves.get(key)) is None:
                    found = _Leaf(dataset, self._version, self._limit_bytes)
                    self._leaves[key] = found
        return found


class Places(NamedTuple):
    """Slots in which something may be known of images.

    Attributes:
        slots: int64 [m, 4]: the image's place among those that were asked for; the descriptor of the file, `Head.seed` of
            it, and the number of the slot. An image may have several, the better one first.
        files: Keep the descriptors open.
    """

    slots: NDArray[np.int64]
    files: Sequence[Opened]


class _Leaf:
    """A dataset that reads its samples itself."""

    def __init__(self, dataset: Dataset, version: int, limit_bytes: int | None) -> None:
        self.cache = CacheFile(head_of(dataset, version), limit_bytes)
        files: Sequence[SampleFile] = getattr(dataset, "sample_files", ())
        self._starts = list(accumulate((file.num_samples for file in files), initial=0))
        self._bounds = np.array(self._starts, np.int64)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(16, min(_MOST_OPEN, soft // 8))
        self._beside: Callable[[int], CheckpointFile | None] = lru_cache(most)(
            lambda number: open_beside(files[number], version)
        )
        self._has_files = len(files) > 0

    def known(self) -> NDArray[np.bool_]:
        found = self.cache.known()
        for number in range(len(self._starts) - 1):
            if file := self._beside(number):
                found[self._starts[number] : self._starts[number + 1]] |= file.known()
        return found

    def places(
        self, own: NDArray[np.int64], positions: NDArray[np.int64], held: list[Opened]
    ) -> Iterator[NDArray[np.int64]]:
        if self._has_files:
            numbers = np.searchsorted(self._bounds, own, side="right") - 1
            shards, which = np.unique(numbers, return_inverse=True)
            opened: list[tuple[int, int]] = []
            for number in shards.tolist():
                if file := self._beside(number):
                    held.append(file.opened)
                    opened.append((held[-1].number, file.seed))
                else:
                    opened.append((_NO_FILE, 0))
            slots = np.empty((len(own), 4), np.int64)
            slots[:, 0], slots[:, 3] = positions, own - self._bounds[numbers]
            slots[:, 1:3] = np.array(opened, np.int64).reshape(-1, 2)[which]
            yield slots[slots[:, 1] != _NO_FILE]
        if file := self.cache.file():
            held.append(file.opened)
            slots = np.empty((len(own), 4), np.int64)
            slots[:, 0], slots[:, 3] = positions, own
            slots[:, 1], slots[:, 2] = held[-1].number, file.seed
            yield slots
