"""Read and store the seek points of the samples of any dataset, including selections and mixtures."""

import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.datasets.origin import origin_of, sources_of
from readers.jpeg_seek_points.layout import Entry
from readers.jpeg_seek_points.locations import CacheFile, make_head, open_beside
from readers.jpeg_seek_points.sample_file import SampleFile
from readers.jpeg_seek_points.seek_point_file import OpenFile, SeekPointFile
from readers.sample import Dataset

_MOST_OPEN = 1024
"""Largest number of files of seek points next to shards that are open at a time; at most an eighth of the process's limit."""
_NO_FILE = -1
"""Stands for a missing file, since descriptors are never negative."""


class DatasetSeekPoints:
    """Reads and stores the seek points of the JPEGs of a dataset; safe to use from any thread.

    Two kinds of files hold them. Next to a data file of many samples (a tar, a Parquet file) there may be a file
    ``NAME.gpuaug-checkpoints``, which `gpu-aug index --seek-points` and `gpu-aug pack` write as a whole. All other seek points
    are in the cache folder, in one file for each dataset; see `readers.jpeg_seek_points.locations`. Selections and mixtures
    use the files of the datasets that they are made of.

    Stored seek points are valid only for an image whose digest equals the stored one.

    Args:
        dataset: Any dataset.
        version: `Finder.version` of the seek points.
        limit_bytes: Largest size of a file in the cache folder; None takes the result of
            `readers.jpeg_seek_points.locations.make_room`.
    """

    def __init__(self, dataset: Dataset, version: int, limit_bytes: int | None = None) -> None:
        self._dataset = dataset
        self._single = sources_of(dataset)[0] is dataset
        self._version, self._limit_bytes = version, limit_bytes
        self._leaves: dict[int, _Leaf] = {}
        self._making = threading.Lock()

    @property
    def is_writable(self) -> bool:
        """Whether more seek points can be stored."""
        return all(leaf.cache.is_writable for leaf in list(self._leaves.values()))

    def find_slots(self, indices: NDArray[np.int64]) -> "SlotLocations":
        """Return where the seek points of images may be stored, without reading them.

        Args:
            indices: int64 [n], indices in the dataset.
        """
        slots, files = [np.empty((0, 4), np.int64)], list[OpenFile]()
        for leaf, own, positions in self._origins(np.asarray(indices, np.int64)):
            slots += leaf.find_slots(own, positions, files)
        return SlotLocations(np.concatenate(slots), files)

    def store(self, entries: Sequence[Entry]) -> None:
        """Store seek points, as many as the limits of the files allow.

        Args:
            entries: The seek points; `Entry.number` is the index in the dataset.
        """
        wanted = np.array([entry.number for entry in entries], np.int64)
        for leaf, own, positions in self._origins(wanted):
            leaf.cache.store(
                [
                    entries[position]._replace(number=index)
                    for index, position in zip(own.tolist(), positions.tolist(), strict=True)
                ]
            )

    def count_known(self) -> int:
        """Return the number of samples that have a stored entry, without checking that it fits the image."""
        count = 0
        for origin in origin_of(self._dataset, np.arange(len(self._dataset))):
            count += int(self._leaf(origin.dataset).used_slots()[origin.indices].sum())
        return count

    def _origins(
        self, indices: NDArray[np.int64]
    ) -> "list[tuple[_Leaf, NDArray[np.int64], NDArray[np.int64]]]":
        if self._single:
            return [(self._leaf(self._dataset), indices, np.arange(len(indices)))]
        return [
            (self._leaf(origin.dataset), origin.indices, origin.positions)
            for origin in origin_of(self._dataset, indices)
        ]

    def _leaf(self, dataset: Dataset) -> "_Leaf":
        key = id(dataset)  # the selection keeps the dataset alive, so no other one gets its id
        if (found := self._leaves.get(key)) is None:
            with self._making:
                if (found := self._leaves.get(key)) is None:
                    found = _Leaf(dataset, self._version, self._limit_bytes)
                    self._leaves[key] = found
        return found


class SlotLocations(NamedTuple):
    """Slots in which the seek points of images may be stored, for compiled code that reads them.

    Attributes:
        slots: int64 [m, 4], for each slot: position of the image in the request, descriptor of the file, `Head.seed` of the
            file, and index of the slot. If an image has several slots, the one to prefer comes first.
        files: Objects that keep the descriptors open.
    """

    slots: NDArray[np.int64]
    files: Sequence[OpenFile]


class _Leaf:
    """The files of seek points of one source: a dataset that reads its samples itself, unlike a selection or mixture."""

    def __init__(self, dataset: Dataset, version: int, limit_bytes: int | None) -> None:
        self.cache = CacheFile(make_head(dataset, version), limit_bytes)
        files: Sequence[SampleFile] = getattr(dataset, "sample_files", ())
        self._starts = list(accumulate((file.num_samples for file in files), initial=0))
        self._bounds = np.array(self._starts, np.int64)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(16, min(_MOST_OPEN, soft // 8))
        self._beside: Callable[[int], SeekPointFile | None] = lru_cache(most)(
            lambda number: open_beside(files[number], version)
        )
        self._has_files = len(files) > 0

    def used_slots(self) -> NDArray[np.bool_]:
        found = self.cache.used_slots()
        for number in range(len(self._starts) - 1):
            if file := self._beside(number):
                found[self._starts[number] : self._starts[number + 1]] |= file.used_slots()
        return found

    def find_slots(
        self, own: NDArray[np.int64], positions: NDArray[np.int64], held: list[OpenFile]
    ) -> Iterator[NDArray[np.int64]]:
        """Yield arrays of slots as in `SlotLocations.slots`: first those in files next to shards, then in the cache folder.

        Args:
            own: int64 [n], indices of the samples in this source.
            positions: int64 [n], positions of the samples in the request.
            held: List to which objects that keep the descriptors open are appended.
        """
        if self._has_files:
            numbers = np.searchsorted(self._bounds, own, side="right") - 1
            shards, which = np.unique(numbers, return_inverse=True)
            opened: list[tuple[int, int]] = []
            for number in shards.tolist():
                if file := self._beside(number):
                    held.append(file.open_file)
                    opened.append((held[-1].number, file.seed))
                else:
                    opened.append((_NO_FILE, 0))
            slots = np.empty((len(own), 4), np.int64)
            slots[:, 0], slots[:, 3] = positions, own - self._bounds[numbers]
            slots[:, 1:3] = np.array(opened, np.int64).reshape(-1, 2)[which]
            yield slots[slots[:, 1] != _NO_FILE]
        if file := self.cache.file():
            held.append(file.open_file)
            slots = np.empty((len(own), 4), np.int64)
            slots[:, 0], slots[:, 3] = positions, own
            slots[:, 1], slots[:, 2] = held[-1].number, file.seed
            yield slots
