"""Shared code of the writers of tar and Parquet shards: their interface, counts of samples, and the digest of the file."""

import hashlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from readers.jpeg_seek_points.layout import Entry
from readers.prepare.packer import Packed, free_key
from readers.storage.destination.output import Output


class Contents:
    """Keys, sizes and seek points of the samples that were added to a shard so far.

    Attributes:
        keys: The keys of the samples.
        seek_points: Seek points of the images; empty if the packer does not search for them.
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
        """Return the counts of the shard for the manifest, given the size of its file."""
        return {
            "samples": len(self.keys),
            "bytes": size_bytes,
            "source_bytes": self._source_bytes,
        }


class Shard(Protocol):
    """A shard that is being written into an open file.

    Attributes:
        contents: Keys and sizes of the samples in the shard.
    """

    contents: Contents

    def fits(self, sample: Packed, most_bytes: int) -> bool:
        """Return whether the shard has at most `most_bytes` bytes with one more sample; an empty shard takes any sample."""

    def add(self, sample: Packed) -> None:
        """Write a sample."""

    def close(self) -> dict[str, Any]:
        """Write the end of the shard, and return its counts for the manifest."""

    def abandon(self) -> None:
        """Release the resources of an unfinished shard; called after an error, while its file is still open."""


def fill(shard: Shard, add_samples: Callable[[Shard], None]) -> tuple[dict[str, Any], list[Entry]]:
    """Add samples to a shard and close it; if this raises an error, abandon the shard.

    Args:
        shard: An empty shard.
        add_samples: Adds all samples to the shard that it is called with.

    Returns:
        Counts of the shard for the manifest, and the seek points of its images.
    """
    try:
        add_samples(shard)
        return shard.close(), shard.contents.seek_points
    except BaseException:
        shard.abandon()
        raise


class DigestFile(Output):
    """A file that passes all bytes on to another file, and computes their SHA-256.

    Args:
        file: The file to write to; it is not closed with this one.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, lambda error: error)
        self._digest = hashlib.sha256()

    def write(self, data: Any, /) -> int:
        """Write bytes, or any object with a buffer; return their number."""
        self._digest.update(data)
        return super().write(data)

    def hexdigest(self) -> str:
        """Return the SHA-256 of all bytes written so far, in hexadecimal digits."""
        return self._digest.hexdigest()
