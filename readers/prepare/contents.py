"""What is noted of a shard while it is written, whatever its format."""

import hashlib
import io
from typing import Any, BinaryIO

from readers.jpeg_seek_points.layout import Entry
from readers.prepare.packer import Packed, free_key


class Contents:
    """Keys, sizes and counts of the samples of one shard.

    Attributes:
        keys: The keys that are taken.
        checkpoints: Those of the images, where they were looked for.
    """

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self.checkpoints: list[Entry] = []
        self._source_bytes = 0

    def add(self, sample: Packed) -> str:
        """Count a sample in, and return the key that it has here."""
        key = free_key(sample.name, self.keys)
        if sample.found is not None:
            self.checkpoints.append(Entry(len(self.keys), *sample.found))
        self.keys.add(key)
        self._source_bytes += sample.before_bytes
        return key

    def noted(self, size_bytes: int) -> dict[str, Any]:
        """What a manifest says of them, in a shard of this size."""
        return {
            "samples": len(self.keys),
            "bytes": size_bytes,
            "source_bytes": self._source_bytes,
        }


class DigestFile(io.BufferedIOBase, BinaryIO):
    """Passes bytes on and digests them; enough of a file for pyarrow's writers.

    Args:
        file: Where they go. It is not closed with this.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._digest, self._num_bytes = file, hashlib.sha256(), 0

    def write(self, data: Any, /) -> int:
        """Take bytes, or anything with a buffer."""
        self._digest.update(data)
        self._file.write(data)
        length = memoryview(data).nbytes
        self._num_bytes += length
        return length

    def tell(self) -> int:
        """How much has been written."""
        return self._num_bytes

    def writable(self) -> bool:
        """It is."""
        return True

    def hexdigest(self) -> str:
        """SHA-256 of what has been written."""
        return self._digest.hexdigest()
