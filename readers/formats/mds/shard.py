"""A shard of an MDS folder, whose header holds the offsets of its samples."""

import errno
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from readers.formats.mds.columns import Plan
from readers.formats.mds.index import NAME, MdsShard, inside
from readers.formats.mds.unpack import check_compression, unpacked
from readers.sample import Payload, SourceError
from readers.storage.blob import Blob, LocalBlob, is_url, open_blob
from readers.storage.blob.mapped import copied


class Shard:
    """A shard: decompressed where it lies so, else from its compressed file.

    Of this machine it is looked at now, and what is there now is what is read later: another file in its place is
    found out. Elsewhere it is opened when it is needed.

    Args:
        folder: Path or URL.
        info: What index.json says.
        plan: How its samples are read.

    Raises:
        SourceError: It is missing, not as long as the index says, or compressed in a way that cannot be undone.
    """

    def __init__(self, folder: str, info: MdsShard, plan: Plan) -> None:
        self.info, self.plan = info, plan
        is_far = is_url(folder)
        packed = info.packed if is_far or not Path(folder, info.raw.path).exists() else None
        file = packed or info.raw
        self.location, self._is_packed = inside(folder, file.path), packed is not None
        if packed:
            check_compression(info.compression, f"{folder}/{file.path}")
        self._blob = None if is_far else open_blob(self.location)
        if self._blob and self._blob.size_bytes != file.num_bytes:
            raise SourceError(
                f"{self.location} has {self._blob.size_bytes} bytes, and {NAME} says {file.num_bytes}: "
                "copy the folder again"
            )
        self._opened: tuple[Blob, NDArray[np.uint32]] | None = None

    def stored(self) -> Blob:
        """The file as it is stored.

        Raises:
            SourceError: It is not there.
        """
        return self._blob or open_blob(self.location)

    def read(self, rows: Sequence[int]) -> list[Payload]:
        """Return samples, empty where the shard tells nonsense; of this machine views into its map.

        Raises:
            OSError: It is no shard with so many samples, or cannot be read.
            SourceError: It is not there.
        """
        blob, offsets = self._open()
        spans = []
        for row in rows:
            start, stop = int(offsets[row]), int(offsets[row + 1])
            fits = offsets.nbytes + 4 <= start <= stop <= blob.size_bytes
            spans.append((start, stop) if fits else (0, 0))
        if isinstance(blob, LocalBlob):  # only parts may be asked for
            view = blob.view()
            return [view[start:stop] for start, stop in spans]
        return blob.read(spans)

    def fill(self, number: int) -> NDArray[np.int64]:
        """The same number for every sample, int64 [S], once it is known that they are there; see `read`."""
        _, offsets = self._open()
        return np.full(len(offsets) - 1, number, np.int64)

    def wrong_hash(self) -> str:
        """Compare the hashes in the index; return the mismatch, or "". For errors see `read`."""
        blob, _ = self._open()
        (content,) = map(copied, blob.read([(0, blob.size_bytes)]))
        for name, expected in self.info.raw.hashes.items():
            if name not in hashlib.algorithms_available or name.startswith("shake"):
                continue  # the standard library has no xxh64 and the like
            if hashlib.new(name, content).hexdigest() != expected:
                return f"the shard's {name} is not the one that index.json says"
        return ""

    def _open(self) -> tuple[Blob, NDArray[np.uint32]]:
        """Its bytes, and where the samples begin and the last one ends, uint32 [S + 1]."""
        if self._opened is None:  # several threads may do the same here, to no harm
            blob, num_samples = self.stored(), self.info.num_samples
            if self._is_packed:
                blob = unpacked(blob, self.info.compression, self.info.raw.num_bytes)
            head_bytes = 4 * (num_samples + 2)
            (head,) = map(copied, blob.read([(0, min(head_bytes, blob.size_bytes))]))
            if len(head) < head_bytes or int.from_bytes(head[:4], "little") != num_samples:
                raise OSError(
                    errno.EINVAL,
                    f"it does not begin like an MDS shard with the {num_samples} samples of index.json",
                )
            self._opened = blob, np.frombuffer(head, "<u4", offset=4)
        return self._opened
