"""What the writers of tar and Parquet shards share: counts of the samples, and the digest of the file."""

import hashlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from readers.jpeg_seek_points.layout import Entry
from readers.prepare.packer import Packed, free_key
from readers.storage.destination.output import Output


class Contents:
    """Keys, sizes and counts of the samples of one shard.

    Attributes:
        keys: The keys of the samples so far.
        seek_points: Seek points of the images, if the packer finds them.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.seek_points: list[Entry] = []
        self._source_bytes = 0

    def add(self, sample: Packed) -> str:
        """Count a sample, and return the key that it gets in this shard."""
        key = free_key(sample.name, self.keys)
        if sample.found is not None:
            self.seek_points.append(Entry(len(self.keys), *sample.found))
        self.keys.add(key)
        self._source_bytes += sample.before_bytes
        return key

    def noted(self, size_bytes: int) -> dict[str, Any]:
        """Return the counts for the manifest, for a shard of this size."""
        return {
            "samples": len(self.keys),
            "bytes": size_bytes,
            "source_bytes": self._source_bytes,
        }


class Shard(Protocol):
    """A shard that is being written into an open file.

    Attributes:
        contents: Counts of its samples.
    """

    contents: Contents

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Return whether the shard takes at most so many bytes with one more sample, or is empty."""

    def add(self, sample: Packed) -> None:
        """Write a sample."""

    def close(self) -> dict[str, Any]:
        """Write the end of the shard, and return its counts for the manifest."""

    def abandon(self) -> None:
        """Release what the shard holds without finishing it, while its file is still open."""


def fill(shard: Shard, add_samples: Callable[[Shard], None]) -> tuple[dict[str, Any], list[Entry]]:
    """Add samples and close a shard; abandon it if this fails.

    Returns:
        Its counts for the manifest, and the seek points of its images.
    """
    try:
        add_samples(shard)
        return shard.close(), shard.contents.seek_points
    except BaseException:
        shard.abandon()
        raise


class DigestFile(Output):
    """Writes to another file, which stays open, and computes the SHA-256 of all bytes.

    Args:
        file: The other file.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, lambda error: error)
        self._digest = hashlib.sha256()

    def write(self, data: Any, /) -> int:
        """Write bytes, or any object with a buffer."""
        self._digest.update(data)
        return super().write(data)

    def hexdigest(self) -> str:
        """Return the SHA-256 of the bytes so far."""
        return self._digest.hexdigest()
