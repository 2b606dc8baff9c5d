"""Layout of a file of seek points: a slot for each sample of a dataset or shard, then rows.

The file holds, in this order, all numbers little-endian:

    128 bytes   format, fingerprint of the data, version of the rows, number of slots, checksum of these
    slots       32 bytes for each sample: offset of its rows, digest of its image, status, checksums; zeros: unknown
    rows        the seek points of each image, as bytes that only the `Finder` interprets, in any order

The file holds neither code nor pickles. Rows are appended before the slot that refers to them is written: a writer that is
killed in between leaves bytes to which no slot refers. The checksum of a slot also covers the head of the file and the index
of the sample, and a slot holds the checksum of its rows. Damaged slots, slots at a wrong place and rows that two processes
wrote at the same time count as unknown.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from readers.storage.side_file import CheckedStruct, DamagedFileError

FORMAT = b"gpu-aug points 1"
"""First bytes of each file. A new layout needs a new number at their end."""
HEAD_BYTES = 128
"""Number of bytes before the slots: a multiple of 32, so that no slot crosses a page."""
SLOT_BYTES = 32
"""Size of a slot."""

_HEAD = CheckedStruct("16s32sI4xQ")
"""Layout of the head: format, fingerprint of the data, version of the rows, number of slots."""
_SLOT = CheckedStruct("QQIIhH")
"""Layout of a slot: the fields of `Slot`."""
SLOT = np.dtype(
    [
        *(("start", "<u8"), ("digest", "<u8"), ("num_bytes", "<u4"), ("crc", "<u4")),
        *(("status", "<i2"), ("every", "<u2"), ("check", "<u4")),
    ]
)
"""Layout of a slot for compiled code: the fields of `Slot`, then a CRC-32 over the index of the sample (8 bytes) and these
fields, which starts from `Head.seed`."""
_UNKNOWN = bytes(SLOT_BYTES)
"""An empty slot. Holes of a sparse file read as zeros, so the slots of a new file need not be written."""
_PIECE_SLOTS = 1 << 15
"""Number of slots that are encoded at a time: 1 MB."""


class PackedSeekPoints(NamedTuple):
    """Seek points of one image, in the form in which they are stored.

    Attributes:
        status: Status of the whole image, such as sound or damaged, -32768 to 32767; the `Finder` defines the values.
        every: Distance between two seek points, 0 to 65535; the `Finder` defines the unit.
        rows: The seek points as bytes, a row for each; may be empty.
    """

    status: int
    every: int
    rows: bytes


class Entry(NamedTuple):
    """The seek points of the image of one sample.

    Attributes:
        number: Index of the sample among those of the file.
        digest: `Finder.digest` of the image.
        points: The seek points of the image.
    """

    number: int
    digest: int
    points: PackedSeekPoints


class Slot(NamedTuple):
    """The slot of one sample: where its rows are stored, and checksums.

    Attributes:
        start: Offset of the rows in the file.
        digest: `Finder.digest` of the image.
        num_bytes: Length of the rows in bytes.
        crc: CRC-32 of the rows.
        status: Status of the image; see `PackedSeekPoints`.
        every: Distance between two seek points; see `PackedSeekPoints`.
    """

    start: int
    digest: int
    num_bytes: int
    crc: int
    status: int
    every: int

    def check(self, rows: bytes) -> PackedSeekPoints | None:
        """Return the seek points, given the bytes that were read at `start`; None if their checksum does not match."""
        if len(rows) != self.num_bytes or zlib.crc32(rows) != self.crc:
            return None
        return PackedSeekPoints(self.status, self.every, rows)


@dataclass(frozen=True)
class Head:
    """The head of a file of seek points, which describes the data that the file belongs to.

    Attributes:
        belongs: 32 hex digits, the identity of the dataset or shard.
        version: `Finder.version` of the seek points.
        num_samples: Number of samples, and of slots.
    """

    belongs: str
    version: int
    num_samples: int

    def pack(self) -> bytes:
        """Return the first HEAD_BYTES of the file."""
        return self._packed().ljust(HEAD_BYTES, b"\0")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the head in the first bytes of a file.

        Raises:
            DamagedFileError: The bytes are damaged, or of another format.
        """
        name, belongs, version, num_samples = _HEAD.unpack(data, "head")
        if name != FORMAT:
            raise DamagedFileError("it is of another format")
        return cls(belongs.decode("ascii", "replace"), version, num_samples)

    @property
    def first_row(self) -> int:
        """Offset of the first byte after the slots."""
        return HEAD_BYTES + SLOT_BYTES * self.num_samples

    @property
    def seed(self) -> int:
        """Start value for the checksums of slots, so that slots of other files do not match: the checksum of the head."""
        return int.from_bytes(self._packed()[-4:], "little")

    def slot_at(self, number: int) -> int:
        """Return the offset in the file of the slot of a sample."""
        return HEAD_BYTES + SLOT_BYTES * number

    def _packed(self) -> bytes:
        return _HEAD.pack(FORMAT, self.belongs.encode(), self.version, self.num_samples)


def pack_slot(seed: int, entry: Entry, start: int) -> bytes:
    """Return the bytes of the slot of a sample.

    Args:
        seed: `Head.seed` of the file.
        entry: The seek points of the sample.
        start: Offset of their rows in the file.
    """
    status, every, rows = entry.points
    slot = Slot(start, entry.digest, len(rows), zlib.crc32(rows), status, every)
    return _SLOT.pack(*slot, seed=_slot_seed(seed, entry.number))


def parse_slot(seed: int, number: int, data: bytes) -> Slot | None:
    """Return the slot of a sample, given its bytes; None if it is empty.

    Args:
        seed: `Head.seed` of the file.
        number: Index of the sample in the file.
        data: Bytes of the slot.

    Raises:
        DamagedFileError: The checksum does not match.
    """
    if data == _UNKNOWN:
        return None
    return Slot(*_SLOT.unpack(data, "slot", seed=_slot_seed(seed, number)))


def encode_pieces(head: Head, entries: Callable[[], Iterable[Entry]]) -> Iterator[bytes]:
    """Yield the bytes of a complete file of seek points, in pieces; they depend only on the arguments.

    Args:
        head: Head of the file.
        entries: Returns an iterable of the entries in ascending order of `Entry.number`; it is called twice, and must return
            equal entries.
    """
    yield head.pack()
    seed, start, number = head.seed, head.first_row, 0
    slots = bytearray()
    for entry in entries():
        for missing in _pieces(entry.number - number):
            slots += bytes(SLOT_BYTES * missing)
            yield bytes(slots)
            slots.clear()
        slots += pack_slot(seed, entry, start)
        start += len(entry.points.rows)
        number = entry.number + 1
        if len(slots) >= SLOT_BYTES * _PIECE_SLOTS:
            yield bytes(slots)
            slots.clear()
    yield bytes(slots)
    for missing in _pieces(head.num_samples - number):
        yield bytes(SLOT_BYTES * missing)
    for entry in entries():
        yield entry.points.rows


def encode_file(head: Head, entries: Sequence[Entry]) -> bytes:
    """Return all bytes of a file of seek points, for a file of few samples; see `encode_pieces`."""
    return b"".join(encode_pieces(head, lambda: entries))


def _pieces(count: int) -> Iterator[int]:
    for begun in range(0, count, _PIECE_SLOTS):
        yield min(_PIECE_SLOTS, count - begun)


def _slot_seed(seed: int, number: int) -> int:
    return zlib.crc32(number.to_bytes(8, "little"), seed)
