"""Layout of a file of seek points: a slot for each image of a dataset or a shard, then rows.

All numbers little-endian, in this order:

    128 bytes   format, fingerprint of the data, version of the rows, number of slots, checksum of these
    slots       32 bytes for each sample: offset of its rows, digest of its image, status, checksums; zeros: unknown
    rows        bytes that are opaque here, in any order

The file holds neither code nor pickles. Rows are appended before the slot that names them is written: a writer that is killed
in between leaves bytes that no slot names. The checksum of a slot also covers the head of the file and the number of the
sample, and a slot holds the checksum of its rows. Damaged slots, slots at a wrong place and rows that two processes wrote at
the same time count as unknown.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from readers.storage.side_file import CheckedStruct, DamagedFileError

FORMAT = b"gpu-aug points 1"
"""First bytes of each file. Another layout needs another number at their end."""
HEAD_BYTES = 128
"""Bytes before the slots: a multiple of 32, so that no slot crosses a page."""
SLOT_BYTES = 32
"""Bytes of a slot."""

_HEAD = CheckedStruct("16s32sI4xQ")
"""Format, fingerprint of the data, version of the rows, number of slots."""
_SLOT = CheckedStruct("QQIIhH")
"""The fields of `Slot`."""
SLOT = np.dtype(
    [
        *(("start", "<u8"), ("digest", "<u8"), ("num_bytes", "<u4"), ("crc", "<u4")),
        *(("status", "<i2"), ("every", "<u2"), ("check", "<u4")),
    ]
)
"""A slot for compiled code: the fields of `Slot`, then the CRC-32 of the number of the sample (8 bytes) and these fields,
which starts from `Head.seed`."""
_UNKNOWN = bytes(SLOT_BYTES)
"""Holes of a sparse file read as zeros, so a new file needs no writing of its slots."""
_PIECE_SLOTS = 1 << 15
"""Slots that are encoded at a time: 1 MB."""


class PackedSeekPoints(NamedTuple):
    """Seek points of one image as they are stored.

    Attributes:
        status: Verdict on the whole image, -32768 to 32767; the `Finder` defines the numbers.
        every: Distance of the rows, 0 to 65535; the `Finder` defines the unit.
        rows: The rows as bytes; may be empty.
    """

    status: int
    every: int
    rows: bytes


class Entry(NamedTuple):
    """Seek points of a certain image.

    Attributes:
        number: Number of the sample in the file.
        digest: 64 bits over all bytes of the image.
        points: Its seek points.
    """

    number: int
    digest: int
    points: PackedSeekPoints


class Slot(NamedTuple):
    """Position and checksums of the rows of an image.

    Attributes:
        start: Offset of the rows in the file.
        digest: See `Entry`.
        num_bytes: Length of the rows.
        crc: CRC-32 of the rows.
        status: See `PackedSeekPoints`.
        every: See `PackedSeekPoints`.
    """

    start: int
    digest: int
    num_bytes: int
    crc: int
    status: int
    every: int

    def check(self, rows: bytes) -> PackedSeekPoints | None:
        """Return the seek points with the bytes read at `start`, or None if these are not the rows that were written."""
        if len(rows) != self.num_bytes or zlib.crc32(rows) != self.crc:
            return None
        return PackedSeekPoints(self.status, self.every, rows)


@dataclass(frozen=True)
class Head:
    """Description of the data at the beginning of a file.

    Attributes:
        belongs: 32 hex digits, the fingerprint of the dataset or shard.
        version: `Finder.version`.
        num_samples: Number of slots.
    """

    belongs: str
    version: int
    num_samples: int

    def pack(self) -> bytes:
        """Return the first HEAD_BYTES of the file."""
        return self._packed().ljust(HEAD_BYTES, b"\0")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the first bytes of a file.

        Raises:
            DamagedFileError: They are damaged, or of another format.
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
        """Start of the checksums of slots, so that slots of other files do not match: the checksum of the head."""
        return int.from_bytes(self._packed()[-4:], "little")

    def slot_at(self, number: int) -> int:
        """Return the offset of the slot of a sample."""
        return HEAD_BYTES + SLOT_BYTES * number

    def _packed(self) -> bytes:
        return _HEAD.pack(FORMAT, self.belongs.encode(), self.version, self.num_samples)


def pack_slot(seed: int, entry: Entry, start: int) -> bytes:
    """Return the slot of an image.

    Args:
        seed: See `Head.seed`.
        entry: Its seek points.
        start: Offset of their rows.
    """
    status, every, rows = entry.points
    slot = Slot(start, entry.digest, len(rows), zlib.crc32(rows), status, every)
    return _SLOT.pack(*slot, seed=_slot_seed(seed, entry.number))


def parse_slot(seed: int, number: int, data: bytes) -> Slot | None:
    """Read the slot of a sample; None if it is empty.

    Raises:
        DamagedFileError: It is not as it was written.
    """
    if data == _UNKNOWN:
        return None
    return Slot(*_SLOT.unpack(data, "slot", seed=_slot_seed(seed, number)))


def encode_pieces(head: Head, entries: Callable[[], Iterable[Entry]]) -> Iterator[bytes]:
    """Yield the bytes of a complete file; the same entries always give the same bytes.

    Args:
        head: Head of the file.
        entries: Yields the entries in increasing order of their numbers; it is called twice and must yield the same.
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
    """Return the bytes of a complete file of few samples; see `encode_pieces`."""
    return b"".join(encode_pieces(head, lambda: entries))


def _pieces(count: int) -> Iterator[int]:
    for begun in range(0, count, _PIECE_SLOTS):
        yield min(_PIECE_SLOTS, count - begun)


def _slot_seed(seed: int, number: int) -> int:
    return zlib.crc32(number.to_bytes(8, "little"), seed)
