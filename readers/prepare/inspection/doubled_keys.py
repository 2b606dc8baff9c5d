"""Which keys of a dataset come again, told by 8 bytes of each, in memory that does not grow with their number."""

from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_BUCKET_KEYS = 1 << 23  # sorted at a time, in some 400 MB
_MEMORY_BYTES = 1 << 28
_PAIR = np.dtype([("digest", "<u8"), ("index", "<i8")])


class DoubledKeys:
    """Takes the digests of all keys, in the order of the samples; 16 bytes of each lie in memory or on disk.

    Args:
        length: How many keys there will be, or more.
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
        """Take the digests of the samples that follow, uint64 [n]."""
        pairs = np.empty(len(digests), _PAIR)
        pairs["digest"] = digests
        pairs["index"] = np.arange(self._num_keys, self._num_keys + len(digests))
        self._num_keys += len(digests)
        if self._num_buckets == 1:
            self._buckets[0].write(pairs.tobytes())
            return
        # By the upper half of the digest, so that one bucket after the other is in order of the digests.
        places = (pairs["digest"] >> np.uint64(32)) * np.uint64(self._num_buckets) >> np.uint64(32)
        for place in np.unique(places).tolist():
            self._buckets[place].write(pairs[places == place].tobytes())

    def find(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """How many samples have a key that was there before, and (index, index of the one before) of some of these.

        Args:
            most: So many pairs are returned at most: those of the lowest digests.
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
