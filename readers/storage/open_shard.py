"""One shard in use: reading the fields of its samples, and finding where their images lie."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from readers.located import Reads
from readers.sample import Payload, find_image, is_video_field
from readers.storage.blob import Blob, LocalBlob
from readers.storage.blob.mapped import Descriptor, MappedFile, mapped_file
from readers.storage.index import ShardIndex
from readers.storage.index.index_file import ROW, Names
from readers.storage.index.shard_index import Row

Take = Callable[[Names, tuple[int, ...]], dict[str, Payload]]
"""Makes the fields of samples, in turn."""


class ShardImages(NamedTuple):
    """Where the images of some samples of a shard lie.

    Attributes:
        which: Numbers, among those that were asked for, of the samples whose images are located.
        entries: Entry of each in the table of rows.
        spans: Start and stop of each image, as an index keeps them.
        restarts: Restart intervals of those that have some, by these numbers.
        file: The open shard.
        address: Where it is mapped.
    """

    which: list[int]
    entries: list[memoryview]
    spans: list[memoryview]
    restarts: dict[int, NDArray[np.int64]]
    file: Descriptor
    address: int


class OpenShard:
    """A shard in use.

    Attributes:
        index: Index of its samples.
        address: Address of the mapped shard, 0 where it is not mapped.
        take: Makes fields of names and of starts and stops, where the bytes are at hand; else see `read`.
    """

    __slots__ = ("_blob", "_file", "address", "index", "take")

    def __init__(self, blob: Blob, index: ShardIndex) -> None:
        self._blob = blob
        self.index = index
        self.take: Take | None = None
        self._file: MappedFile | None = None
        self.address = 0

    def read(self, rows: list[Row]) -> Take:
        """Return what makes fields of these samples, to be called for each of them in turn.

        Raises:
            OSError: See `Blob.read`.
        """
        if isinstance(self._blob, LocalBlob):
            self.take = partial(_fields_of_file, self._map().payload)  # the next time it is there
            return self.take
        ranges = [
            pair for row in rows for pair in zip(row.bounds[::2], row.bounds[1::2], strict=True)
        ]
        payloads = iter(self._blob.read(ranges))
        return lambda names, _: {name: next(payloads) for name in names}

    def find_images(
        self, rows: list[int], image_of: Callable[[Names, str | None], int]
    ) -> ShardImages | None:
        """Find the images of samples in a file of this machine, in a tenth of the time of `ShardIndex.rows`.

        Args:
            rows: Their numbers in the shard.
            image_of: See `image_number`.

        Returns:
            None where the file is at hand in its map alone.

        Raises:
            DamagedIndexError: A checksum of the index does not match.
            OSError: The shard or its index has become shorter, or see `Blob.read`.
        """
        index, file = self.index, (self._file or self._map()).descriptor()
        if file is None:
            return None
        index.check()
        entries = index.entries("rows", rows)
        told = list(ROW.iter_unpack(b"".join(entries)))
        kinds = [row[-1] for row in told]  # of a sample with a fault -1
        images = {
            kind: image_of(*index.head.kinds[kind][:2]) if kind >= 0 else -1 for kind in set(kinds)
        }
        which = [number for number, kind in enumerate(kinds) if images[kind] >= 0]
        spans = index.entries("members", [told[one][1] + images[kinds[one]] for one in which])
        restarts = {
            one: offsets
            for one in (which if index.has_restarts else ())
            if (offsets := index.restarts(rows[one])) is not None
        }
        entries = [entries[one] for one in which]
        return ShardImages(which, entries, spans, restarts, file, self.address)

    def _map(self) -> MappedFile:
        assert isinstance(self._blob, LocalBlob)
        # A map of its own, which goes with this object.
        file = mapped_file(self._blob.unmapped().view())
        assert file is not None  # it has samples
        self._file, self.address = file, file.address
        return file


def image_number(reads: Reads, names: Names, image_field: str | None) -> int:
    """Return which of some fields is the image; -1 where none is, or another one of them will be read."""
    image = find_image(names, image_field)
    if image is None or is_video_field(image) or any(reads(one) for one in names if one != image):
        return -1
    return names.index(image)


def _fields_of_file(
    payload: Callable[[int, int], Payload], names: Names, bounds: tuple[int, ...]
) -> dict[str, Payload]:
    offsets = iter(bounds)
    return {name: payload(next(offsets), next(offsets)) for name in names}
