"""Find duplicate keys of a dataset by 8-byte hashes, in memory that does not grow with the number of keys."""

from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# Keys that are sorted together, in about 400 MB.
_BUCKET_KEYS = 1 << 23
# Pairs in memory; more go to temporary files.
_MEMORY_BYTES = 1 << 28
_PAIR = np.dtype([("digest", "<u8"), ("index", "<i8")])


class DoubledKeys:
    """Collects the hashes of all keys of a dataset, and finds duplicates; a key takes 16 bytes in memory or on disk.

    Args:
        length: Largest number of keys that will be added.
    """

    def __init__(self, length: int) -> None:
        self._num_buckets = max(1, -(-length // _BUCKET_KEYS))
        self._num_keys = 0
        self._files = ExitStack()
        most = _MEMORY_BYTES // self._num_buckets
        self._buckets: list[IO[bytes]] = [
            self._files.enter_context(SpooledTemporaryFile(max_size=most))  # noqa: SIM115
            for _ in range(self._num_buckets)
        ]

    def __enter__(self) -> "DoubledKeys":
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, digests: NDArray[np.uint64]) -> None:
        """Add the hashes of the next n samples, uint64 [n]; the caller adds all samples in the order of the dataset."""
        pairs = np.empty(len(digests), _PAIR)
        pairs["digest"] = digests
        pairs["index"] = np.arange(self._num_keys, self._num_keys + len(digests))
        self._num_keys += len(digests)
        if self._num_buckets == 1:
            self._buckets[0].write(pairs.tobytes())
            return
        # By the upper half of the hash, so that the hashes of a bucket are below those of the next one.
        places = (pairs["digest"] >> np.uint64(32)) * np.uint64(self._num_buckets) >> np.uint64(32)
        for place in np.unique(places).tolist():
            self._buckets[place].write(pairs[places == place].tobytes())

    def find(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the number of samples whose key an earlier sample has, too, and a list of such pairs.

        Args:
            most: Largest number of pairs to return. If there are more, those with the lowest hashes are returned.

        Returns:
            The number of duplicates; and pairs (index of the duplicate, index of an earlier sample with that key), sorted.
        """
        count = 0
        found: list[tuple[int, int]] = []
        for bucket in self._buckets:
            bucket.seek(0)
            pairs = np.frombuffer(bucket.read(), _PAIR)
            order = np.argsort(pairs["digest"], kind="stable")
            digests: NDArray[Any] = pairs["digest"][order]
            again = np.flatnonzero(digests[1:] == digests[:-1]) + 1
            indices = pairs["index"]
            count += len(again)
            found += [
                (int(indices[order[at]]), int(indices[order[at - 1]]))
                for at in again[: most - len(found)].tolist()
            ]
        return count, sorted(found)
